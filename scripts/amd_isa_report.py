#!/usr/bin/env python3
"""What the compiler made of the kernels for AMD's GPUs: registers, spills and memory from the code objects' metadata,
and from their disassembly what the loops with matrix instructions are made of. No GPU is needed.

    scripts/amd_isa_report.py [build/amd] [--markdown] [--check] [--kernels REGEX]

Code objects are read from the provider's library, with the LLVM tools of the build's compiler.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

LIBRARY = "kernels/portable/libfmhax_provider_portable.a"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"


class ReportError(Exception):
    """What keeps the report from being made."""


@dataclasses.dataclass
class Simd:
    registers: int  # of a lane
    granule: int  # in which they are given out
    most_waves: int


CDNA = Simd(512, 8, 8)  # gfx90a and later: VGPRs and AGPRs together
RDNA4 = Simd(1536, 24, 16)


@dataclasses.dataclass
class Instruction:
    address: int
    mnemonic: str
    target: int | None = None  # of a branch
    operands: str = ""


@dataclasses.dataclass
class Kernel:
    name: str
    architecture: str
    metadata: dict[str, int]
    instructions: list[Instruction]

    @property
    def waves(self) -> int:
        """Waves that a SIMD has registers for."""
        simd = RDNA4 if self.architecture.startswith("gfx12") else CDNA
        granules = -(-max(self.metadata["vgpr_count"], 1) // simd.granule)
        return min(simd.most_waves, simd.registers // (simd.granule * granules))

    @property
    def is_empty(self) -> bool:
        """As on architectures that have no tiles for the kernel's head dimensions."""
        return self.instructions[0].mnemonic == "s_endpgm"

    @property
    def spills(self) -> str:
        """What registers there were too few for: VGPRs in memory, SGPRs in lanes of VGPRs, bytes of a thread's stack."""
        parts = {"VGPR": "vgpr_spill_count", "SGPR": "sgpr_spill_count", "bytes": "private_segment_fixed_size"}
        return ", ".join(f"{self.metadata[key]} {what}" for what, key in parts.items() if self.metadata[key] > 0)


def code_objects(data: bytes) -> list[tuple[str, bytes]]:
    """(architecture, ELF) of each code object in a file that holds clang's offload bundles, compressed ones excepted."""
    found = []
    at = data.find(BUNDLE)
    while at >= 0:
        entry = at + len(BUNDLE) + 8
        (count,) = struct.unpack_from("<Q", data, entry - 8)
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, entry)
            target = data[entry + 24 : entry + 24 + length].decode()
            entry += 24 + length
            if "amdgcn" in target:
                found.append((target.rsplit("-", 1)[-1], data[at + offset : at + offset + size]))
        at = data.find(BUNDLE, at + len(BUNDLE))
    return found


def parse_metadata(notes: str) -> dict[str, dict[str, int]]:
    """Numbers of each kernel, by symbol, from `llvm-readobj --notes`."""
    kernels: dict[str, dict[str, int]] = {}
    for item in re.split(r"^  - (?=\.)", notes, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^(?:    )?\.(\w+): +(\S+)$", item, flags=re.MULTILINE))
        if "name" in fields:
            kernels[fields["name"]] = {key: int(value) for key, value in fields.items() if value.isdigit()}
    return kernels


def parse_disassembly(text: str) -> dict[str, list[Instruction]]:
    """Instructions of each function, by symbol, from `llvm-objdump --disassemble`."""
    functions: dict[str, list[Instruction]] = {}
    start, current = 0, None
    for line in text.splitlines():
        if symbol := re.match(r"([0-9a-f]+) <(.+)>:$", line):
            start, current = int(symbol[1], 16), functions.setdefault(symbol[2], [])
        elif current is not None and (code := re.match(r"\t(\w+)\s*(.*?)\s*// ([0-9A-F]+):(?:.*<.*?(?:\+0x([0-9a-f]+))?>$)?", line)):
            is_branch = code[1].startswith(("s_cbranch", "s_branch"))
            target = start + int(code[4] or "0", 16) if is_branch else None
            current.append(Instruction(int(code[3], 16), code[1], target, code[2]))
    return functions


def loops(instructions: list[Instruction]) -> list[list[Instruction]]:
    """Instructions from the target of each backward branch to the branch."""
    ends: dict[int, int] = {}
    for instruction in instructions:
        if instruction.target is not None and instruction.target <= instruction.address:
            ends[instruction.target] = max(instruction.address, ends.get(instruction.target, 0))
    return [[i for i in instructions if begin <= i.address <= end] for begin, end in ends.items()]


def is_matrix(instruction: Instruction) -> bool:
    return instruction.mnemonic.startswith(("v_mfma", "v_wmma"))


def main_loop(instructions: list[Instruction]) -> list[Instruction]:
    """The shortest loop that has at least half as many matrix instructions as any; the whole function where none has."""
    found = [(sum(map(is_matrix, loop)), loop) for loop in loops(instructions)]
    most = max((count for count, _ in found), default=0)
    if most == 0:
        return instructions
    return min((loop for count, loop in found if 2 * count >= most), key=len)


def counts(instructions: list[Instruction], pattern: str) -> str:
    """How often what `pattern` captures occurs, e.g. "8 x b128, 2 x b64"."""
    found = collections.Counter(m[1] for i in instructions if (m := re.match(pattern, i.mnemonic)))
    return ", ".join(f"{count} x {what}" for what, count in found.most_common()) or "-"


# Columns about a loop or a whole kernel: title, and what of a mnemonic is counted.
MATRIX = ("matrix", r"v_(?:mfma|wmma)_\w+?_(\d+x\d+x\d+)")
LDS_READS = ("LDS reads", r"ds_(?:read|load)\w*?_((?:tr\d*_)?[bui]\d+)")
LDS_WRITES = ("LDS writes", r"ds_(?:write|store)\w*?_(b\d+)")
LOADS = ("loads", r"(?:global|buffer|flat)_load_(\w+)")
STORES = ("stores", r"(?:global|buffer|flat)_store_(\w+)")
ATOMICS = ("atomics", r"(?:global|buffer|flat)_atomic_(\w+)")


def columns(kernel: Kernel) -> dict[str, str]:
    loop = main_loop(kernel.instructions)
    matrix = sum(map(is_matrix, loop))
    row = {
        "kernel": kernel.name,
        "GPU": kernel.architecture,
        "VGPR": str(kernel.metadata["vgpr_count"]),
        "of them AGPR": str(kernel.metadata.get("agpr_count", 0)),
        "SGPR": str(kernel.metadata["sgpr_count"]),
        "static LDS": str(kernel.metadata["group_segment_fixed_size"]),
        "waves/SIMD": str(kernel.waves),
        "spills": kernel.spills or "-",
    }
    if matrix > 0:
        row["main loop"] = str(len(loop))
        row[MATRIX[0]] = f"{counts(loop, MATRIX[1])} ({100 * matrix / len(loop):.0f} %)"
        row["waits"] = str(sum(i.mnemonic.startswith("s_wait") for i in loop))
        row["barriers"] = str(sum(i.mnemonic in ("s_barrier", "s_barrier_wait") for i in loop))
    else:
        row.update({"main loop": "-", MATRIX[0]: "-", "waits": "-", "barriers": "-"})
    for title, pattern in (LDS_READS, LDS_WRITES, LOADS, STORES):
        row[title] = counts(loop, pattern)
    row[ATOMICS[0]] = counts(kernel.instructions, ATOMICS[1])
    return row


def faults(kernel: Kernel, allows_spills: bool = False) -> list[str]:
    """What must not be in a kernel, or what is missing."""

    def has(pattern: str) -> bool:
        return any(re.match(pattern, i.mnemonic) for i in kernel.instructions)

    found = [f"spills {kernel.spills}"] if kernel.spills and not allows_spills else []
    if has(r"\w+_atomic_cmpswap"):
        found.append("an atomic operation is a loop of compare and swap")
    is_backward = kernel.name.startswith("backward")
    if (is_backward or kernel.name.startswith("forward")) and not any(map(is_matrix, kernel.instructions)):
        found.append("no matrix instruction")
    if is_backward and not has(r"(global|buffer)_load_(lds_)?(dwordx4|b128)"):
        found.append("no load of 16 bytes")
    if is_backward and " direct" not in kernel.name and not has(r"global_atomic_(pk_)?add_f32"):
        found.append("no atomic addition of fp32 in hardware")
    return found


def short_name(demangled: str) -> str:
    """backward_kernel<BackwardInstance<(DataType)2, 64, 64, true, false>> is backward<bf16, 64, 64> direct."""
    name = re.sub(r"fmhax::|portable::|\(anonymous namespace\)::|^void ", "", demangled)
    name = name.replace("(DataType)1", "fp16").replace("(DataType)2", "bf16")
    name = re.sub(r"\((?=KernelParams).*$", "", name)
    if instance := re.match(r"backward_kernel<BackwardInstance<(\w+, \d+, \d+), (\w+), (\w+)> ?>", name):
        direct = " direct" if instance[2] == "true" else ""
        return f"backward<{instance[1]}>{direct}{' features' if instance[3] == 'true' else ''}"
    return name


class Tools:
    """The LLVM tools that belong to the build's compiler."""

    def __init__(self, build: pathlib.Path):
        cache = build / "CMakeCache.txt"
        compiler = re.search(r"^CMAKE_HIP_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
        self.folder = pathlib.Path(compiler[1]).resolve().parent if compiler else None

    def run(self, tool: str, *arguments: str, text: str | None = None) -> str:
        path = shutil.which(tool, path=self.folder) if self.folder else None
        path = path or shutil.which(tool)
        if path is None:
            raise ReportError(f"{tool} is neither beside the build's compiler ({self.folder}) nor in PATH")
        return subprocess.run([path, *arguments], check=True, capture_output=True, text=True, input=text).stdout


def read_kernels(build: pathlib.Path, pattern: str) -> list[Kernel]:
    library = build / LIBRARY
    if not library.exists():
        raise ReportError(f"{library} does not exist; build the preset amd")
    objects = code_objects(library.read_bytes())
    if not objects:
        raise ReportError(f"{library} holds no code objects, or only compressed ones")
    tools = Tools(build)
    kernels = []
    with tempfile.TemporaryDirectory() as folder:
        elf = pathlib.Path(folder) / "code_object"
        for architecture, content in objects:
            elf.write_bytes(content)
            metadata = parse_metadata(tools.run("llvm-readobj", "--notes", str(elf)))
            functions = parse_disassembly(tools.run("llvm-objdump", "--disassemble", str(elf)))
            names = tools.run("llvm-cxxfilt", text="\n".join(metadata)).splitlines()
            for symbol, name in zip(metadata, names):
                kernels.append(Kernel(short_name(name), architecture, metadata[symbol], functions[symbol]))
    chosen = [kernel for kernel in kernels if not kernel.is_empty and re.search(pattern, kernel.name)]
    return sorted(chosen, key=lambda k: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", f"{k.name} {k.architecture}")])


def table(rows: list[dict[str, str]], is_markdown: bool) -> str:
    titles = list(rows[0])
    if is_markdown:
        cells = [[f"`{name}`", *others] for name, *others in (row.values() for row in rows)]
        lines = [titles, ["---"] * len(titles), *cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(row[title]) for row in [dict(zip(titles, titles)), *rows]) for title in titles]
    lines = [titles, *(list(row.values()) for row in rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=pathlib.Path("build/amd"), help="build folder")
    parser.add_argument("--kernels", default="", metavar="REGEX", help="only kernels whose names match")
    parser.add_argument("--markdown", action="store_true", help="as a Markdown table")
    parser.add_argument("--check", action="store_true", help="name what must not be, and return 1 if there is something")
    parser.add_argument("--allow-spills", action="store_true", help="spills are no fault: older compilers need them")
    options = parser.parse_args()
    kernels = read_kernels(options.build, options.kernels)
    if not kernels:
        raise ReportError(f"no kernel matches '{options.kernels}'")
    if not options.check:
        print(table([columns(kernel) for kernel in kernels], options.markdown))
        return 0
    found = [
        f"{kernel.name} on {kernel.architecture}: {fault}"
        for kernel in kernels
        for fault in faults(kernel, options.allow_spills)
    ]
    print("\n".join([*found, f"{len(kernels)} kernels, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ReportError as error:
        sys.exit(f"amd_isa_report.py: {error}")
