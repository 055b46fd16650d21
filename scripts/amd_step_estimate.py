#!/usr/bin/env python3
"""Estimates how many clocks a step of the backward kernel takes on CDNA, and what it waits for: from the instructions
that a wave executed in emulation, in order, with nominal latencies. No GPU is needed, and none has confirmed it: good
for comparing two versions of a kernel.

    tests/amd_emulation/run_emulated.py --build build/amd --arch gfx942 --trace trace.json -- build/amd/bin/fmhax verify \\
        --batch 1 --nhead-q 1 --hdim-q 128 --seqlen-q 512 --seqlen-k 256
    scripts/amd_step_estimate.py --arch gfx942 --trace trace.json [build/amd]

The model is a wave that is alone on its SIMD unit: an instruction is issued every 4 clocks (quarter-rate ones 16), a
matrix instruction when its unit and its operands are free. The unit takes 16 clocks for 16 x 16 x 16, and as many for
gfx950's 16 x 16 x 32 (from AMD's peak rates). Answers come --lds, --scalar and --memory clocks after they were asked
for, in order; LDS moves 128 bytes a clock for four waves, of which half are taken to ask at the same time.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
import tempfile

import amd_isa_report

ISSUE = 4
QUARTER_RATE = re.compile(r"v_(exp|log|rcp|rsq|mul_lo|mul_hi|mad_u64)")
REGISTER = re.compile(r"\b([av])(?:(\d+)|\[(\d+):(\d+)\])")


def registers(operands):
    found = []
    for kind, single, first, last in REGISTER.findall(" ".join(operands)):
        found += [(kind, i) for i in range(int(single or first), int(single or last) + 1)]
    return found


class Wave:
    """The clock of a wave as it executes one instruction after another."""

    def __init__(self, options):
        self.latency = {"ds_": options.lds, "s_load": options.scalar, "global_": options.memory}
        self.clock = self.matrix_free = self.lds_free = 0
        self.ready = collections.defaultdict(int)  # registers: when
        self.pending = {"lgkmcnt": [], "vmcnt": []}
        self.spent = collections.Counter()

    def wait_until(self, when, why):
        if when > self.clock:
            self.spent[why] += when - self.clock
            self.clock = when

    def issue(self, what, clocks=ISSUE):
        self.spent[what] += clocks
        self.clock += clocks

    def operands_ready(self, operands):
        return max((self.ready[register] for register in registers(operands)), default=0)

    def execute(self, mnemonic, operands):
        if mnemonic == "s_waitcnt":
            for counter, count in re.findall(r"(\w+)\((\d+)\)", " ".join(operands)):
                answers = self.pending.get(counter, [])
                while len(answers) > int(count):
                    self.wait_until(answers.pop(0), f"waits for {'LDS' if counter == 'lgkmcnt' else 'memory'}")
            self.issue("waits and nops")
        elif mnemonic == "s_nop":
            self.issue("waits and nops", ISSUE * (int(operands[0]) + 1))
        elif mnemonic.startswith("v_mfma"):
            self.wait_until(max(self.operands_ready(operands[1:]), self.matrix_free), "waits for the matrix unit")
            self.matrix_free = self.clock + (32 if "_32x32x" in mnemonic else 16)
            self.issue("matrix instructions")
            for register in registers(operands[:1]):
                self.ready[register] = self.matrix_free + ISSUE
        elif mnemonic.startswith("v_"):
            self.wait_until(self.operands_ready(operands[1:]), "waits for the matrix unit")
            self.issue("vector instructions", 16 if QUARTER_RATE.match(mnemonic) else ISSUE)
        elif mnemonic.startswith("ds_"):
            self.wait_until(self.operands_ready(operands), "waits for the matrix unit")
            moves = 16 if re.search(r"b128|2(st64)?_b64", mnemonic) else 8  # clocks, with half of the other waves'
            self.lds_free = max(self.lds_free, self.clock) + moves
            self.pending["lgkmcnt"].append(self.lds_free + self.latency["ds_"])
            self.issue("LDS instructions")
        elif mnemonic.startswith("s_load"):
            self.pending["lgkmcnt"].append(self.clock + self.latency["s_load"])
            self.issue("scalar instructions")
        elif mnemonic.startswith("global_"):
            self.wait_until(self.operands_ready(operands), "waits for the matrix unit")
            self.pending["vmcnt"].append(self.clock + self.latency["global_"])
            self.issue("memory instructions")
        else:
            self.issue("scalar instructions")


def by_address(kernel):
    """Mnemonic and operands of instructions, by address from the kernel's begin."""
    return {i.address - kernel[0].address: (i.mnemonic, i.operands.split(", ")) for i in kernel}


def steps(code, addresses, options):
    """What each step spent, from barrier to barrier, of those that have matrix instructions."""
    wave = Wave(options)
    found, matrix = [], False
    for address in addresses:
        mnemonic, operands = code[address]
        if mnemonic == "s_barrier":
            if matrix:
                found.append(wave.spent)
            wave.spent, matrix = collections.Counter(), False
        matrix = matrix or mnemonic.startswith("v_mfma")
        wave.execute(mnemonic, operands)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=pathlib.Path("build/amd"), help="build folder")
    parser.add_argument("--arch", default="gfx942", help="gfx942 or gfx950")
    parser.add_argument("--trace", required=True, type=pathlib.Path, help="by run_emulated.py --trace")
    parser.add_argument("--lds", type=int, default=100, help="clocks (default 100)")
    parser.add_argument("--scalar", type=int, default=200, help="clocks (default 200)")
    parser.add_argument("--memory", type=int, default=800, help="clocks (default 800)")
    options = parser.parse_args()
    launches = map(json.loads, options.trace.read_text().splitlines())
    launch = next((launch for launch in launches if "backward_kernel" in launch["kernel"]), None)
    if launch is None:
        raise amd_isa_report.ReportError(f"{options.trace} has no launch of a backward kernel")
    tools = amd_isa_report.Tools(options.build)
    library = (options.build / amd_isa_report.LIBRARY).read_bytes()
    symbol = launch["kernel"]
    content = next((content for arch, content in amd_isa_report.code_objects(library)
                    if arch == options.arch and symbol.encode() in content), None)
    if content is None:
        raise amd_isa_report.ReportError(f"the build has no {symbol} for {options.arch}")
    with tempfile.NamedTemporaryFile() as elf:
        elf.write(content)
        elf.flush()
        functions = amd_isa_report.parse_disassembly(tools.run("llvm-objdump", "--disassemble", elf.name))
    found = steps(by_address(functions[symbol]), launch["addresses"], options)
    if len(found) < 5:
        raise amd_isa_report.ReportError("too few steps: take longer sequences")
    found = sorted(found[2:-1], key=lambda spent: spent.total())
    middle = found[len(found) // 2]
    name = tools.run("llvm-cxxfilt", text=symbol).strip()
    print(f"{amd_isa_report.short_name(name)} on {options.arch}: {middle.total()} clocks a step (median of {len(found)})")
    for what, clocks in middle.most_common():
        print(f"{clocks:7}  {what}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except amd_isa_report.ReportError as error:
        sys.exit(f"amd_step_estimate.py: {error}")
