#!/usr/bin/env python3
"""Executes AMD code objects instruction by instruction: the device behind emulated_gpu.cpp, which starts it.

What an instruction does is compiled from AMD's published pseudocode by the emulator in tinygrad's tests
(FMHAX_TINYGRAD names a checkout of github.com/tinygrad/tinygrad); wave.cpp has memory, LDS and matrix instructions.
Blocks run one after another in an order that is shuffled for each launch, the waves of a block in turns of random
length, and registers, LDS and scratch memory start as NaN: what depends on any of that comes out wrong or different.

Arguments: a socket, the file of the device's memory and its address, the library of wave.cpp. Each line from the socket
is a JSON object with one of the keys map, unmap, module, launch; a launch is answered by {} or {"error": ...}.
"""

import collections
import ctypes
import functools
import json
import mmap
import os
import random
import struct
import sys

ISA = os.environ["FMHAX_EMULATION_ISA"]  # tinygrad's name for the instruction set: cdna or rdna4
LANES = 64 if ISA == "cdna" else 32
NAN = 0x7FFF7FFF  # as fp32, bf16 and fp16
EXEC, PROGRAM_COUNTER, SCRATCH_STRIDE, SHARED_BYTES, SGPR_WORDS = 126, 256, 259, 300, 304  # see wave.cpp
TTMP7, TTMP9, NULL = 115, 117, 124  # of RDNA
FINISHED, AT_BARRIER, UNKNOWN_INSTRUCTION, INTERRUPTED = range(4)
TURN_LENGTHS = (100, 1000, 10000)  # instructions
MOST_TURNS = 10_000_000

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MAP_FIXED_NOREPLACE = 0x100000


class Instruction(ctypes.Structure):
    """As in wave.hpp."""

    _fields_ = [("function", ctypes.c_void_p), ("buffer", ctypes.c_uint8 * 6), ("buffer_count", ctypes.c_uint8),
                ("is_barrier", ctypes.c_uint8), ("executed", ctypes.c_uint64)]


def map_memory(address, size, file=-1, offset=0):
    flags = (mmap.MAP_SHARED if file >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    flags |= MAP_FIXED_NOREPLACE if address else 0
    at = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset)
    if at in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap failed")
    return at


class InstructionSet:
    """Functions for instructions: wave.cpp's, and for the rest tinygrad's."""

    OF_WAVE = ("DS_", "GLOBAL_", "SCRATCH_", "FLAT_", "BUFFER_", "V_MFMA_", "V_WMMA_")
    ROW_MIRROR, ROW_SHARE, ROW_XMASK = 0x140, 0x150, 0x160
    BARRIERS = ("S_BARRIER", "S_BARRIER_WAIT")
    APERTURES = (235, 237)  # src_shared_base, src_private_base
    ENCODINGS_WITH_HALVES = ("VOP1_DPP16", "VOP2_DPP16", "VOPC")

    def __init__(self, tinygrad, wave):
        sys.path.insert(0, tinygrad)
        from test.mockgpu.amd import emu  # pylint: disable=import-outside-toplevel,import-error

        self.emu = emu
        self.wave = wave
        self.known = {}
        self.programs = []  # own the functions
        for encoding in (emu.irc.VOP1, emu.irc.VOP2):  # of CDNA
            emu._INST_HANDLERS[encoding] = self.compile_whole_registers  # pylint: disable=protected-access
        self.dpp_of_tinygrad = emu._dpp16_ctrl  # pylint: disable=protected-access
        emu._dpp16_ctrl = self.dpp_source  # pylint: disable=protected-access

    def find(self, address):
        """The name of the instruction at an address, and the instruction."""
        code = ctypes.string_at(address, 16)
        decoded = self.emu.decode_inst(code, ISA)
        code = code[: decoded.size() + 4]
        if code not in self.known:
            self.known[code] = self.make(decoded, code)
        return self.name_of(decoded), self.known[code]

    @staticmethod
    def name_of(decoded):
        return decoded.op.name if hasattr(decoded, "op") else f"{decoded.opx.name} :: {decoded.opy.name}"

    def make(self, decoded, code):
        name = self.name_of(decoded)
        if name == "S_MOV_B64" and code[0] in self.APERTURES:
            name += " aperture"
        if function := self.wave.fmhax_emulation_instruction(name.encode()):
            return Instruction(function, (ctypes.c_uint8 * 6)(0, 1, 3, 4, 5), 5, 0)
        if name.startswith(self.OF_WAVE):
            raise NotImplementedError(f"wave.cpp has no {name}")
        if ISA == "cdna" and type(decoded).__name__ in self.ENCODINGS_WITH_HALVES and self.has_half(decoded):
            raise NotImplementedError(f"tinygrad would take a register of {name} for the upper half of another")
        program, runtime = self.emu._get_runner(code, ISA)  # pylint: disable=protected-access
        self.programs.append(runtime)
        buffers = program.arg.globals
        function = ctypes.cast(runtime.fxn, ctypes.c_void_p).value
        return Instruction(function, (ctypes.c_uint8 * 6)(*buffers), len(buffers), name in self.BARRIERS)

    def compile_whole_registers(self, inst, context):
        """VOP1 and VOP2 of 16 bits: tinygrad takes vector registers from 128 on for the upper halves of those from 0 on,
        which holds for RDNA alone."""
        bits, fields = inst.canonical_op_bits, type(inst)
        if 16 not in bits.values():
            return self.emu._compile_vop12(inst, context)  # pylint: disable=protected-access
        lane, exec_mask = context.range(), context.rexec()
        target = context.inst_field(fields.vdst)
        literal = context.optional_field(inst, "literal")
        sources = {"S0": context.rsrc_dyn(context.inst_field(fields.src0), lane, bits["s0"], literal),
                   "D0": context.rvgpr_dyn(target, lane)}
        if hasattr(fields, "vsrc1"):
            sources["S1"] = context.rvgpr_dyn(context.inst_field(fields.vsrc1), lane)
        return context.compile_vop_pcode(inst.op, sources, lane, target, exec_mask)

    def dpp_source(self, lane, control, *masks):
        """Which lane DPP reads, with what tinygrad lacks: ROW_SHARE, lane n of the row, and ROW_XMASK."""
        number = control & 15
        if control - number not in (self.ROW_SHARE, self.ROW_XMASK):
            return self.dpp_of_tinygrad(lane, control, *masks)
        _, enabled, valid = self.dpp_of_tinygrad(lane, self.ROW_MIRROR, *masks)
        return (lane & ~15) + number if control - number == self.ROW_SHARE else lane ^ number, enabled, valid

    @staticmethod
    def has_half(decoded):
        operands = (getattr(decoded, name, None) for name in ("vdst", "src0", "vsrc0", "vsrc1"))
        has_high_register = any(operand is not None and operand.offset >= 256 + 128 for operand in operands)
        return has_high_register and 16 in decoded.canonical_op_bits.values()


def words_of(address):
    return [address & 0xFFFFFFFF, address >> 32]


class Kernel:
    """A kernel descriptor: llvm.org/docs/AMDGPUUsage.html#kernel-descriptor."""

    def __init__(self, address):
        self.shared_bytes, self.scratch_bytes = struct.unpack("<II", ctypes.string_at(address, 8))
        self.entry = address + struct.unpack("<q", ctypes.string_at(address + 16, 8))[0]
        _, _, self.rsrc2, self.properties, preload = struct.unpack("<IIIHH", ctypes.string_at(address + 44, 16))
        if preload:
            raise NotImplementedError("preloaded kernel arguments")

    def user_registers(self, packet, arguments):
        """The words that lie in the first SGPRs of every wave."""
        unused = [NAN, NAN]
        # Private segment buffer, dispatch packet, queue, arguments, dispatch id, scratch base, scratch size.
        values = [[0, 0, 0, 0], words_of(packet), unused, words_of(arguments), unused, [0, 0], [self.scratch_bytes]]
        words = [word for bit, value in enumerate(values) if self.properties >> bit & 1 for word in value]
        count = self.rsrc2 >> 1 & 0x1F
        return words + [0] * (count - len(words))


class Module:
    """A loaded code object."""

    def __init__(self, image):
        header = struct.unpack_from("<16xHHIQQQIHHHHHH", image)
        segments = [struct.unpack_from("<IIQQQQQQ", image, header[4] + i * header[8]) for i in range(header[9])]
        loaded = [s for s in segments if s[0] == 1]
        self.size = max(s[3] + s[6] for s in loaded)
        self.base = map_memory(0, self.size)
        for _, _, offset, address, _, size, _, _ in loaded:
            ctypes.memmove(self.base + address, image[offset : offset + size], size)
        code = next(s for s in loaded if s[1] & 1)
        self.begin, self.end = self.base + code[3], self.base + code[3] + code[6]
        self.program = (Instruction * (code[6] // 4))()
        self.names = {}  # of the instructions that are known, by place in the program
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, header[5] + i * header[10]) for i in range(header[11])]
        self.symbols = {}
        for section in sections:
            if section[1] == 4:  # RELA
                raise NotImplementedError("relocations of code objects")
            if section[1] == 11:  # DYNSYM
                names = sections[section[6]][4]
                for at in range(section[4], section[4] + section[5], 24):
                    name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
                    self.symbols[image[names + name : image.index(b"\0", names + name)].decode()] = value

    def take_counts(self):
        """How often instructions were executed since the last time, by name."""
        counts = collections.Counter()
        for place, name in self.names.items():
            counts[name] += self.program[place].executed
            self.program[place].executed = 0
        return counts

    def kernel(self, name):
        return Kernel(self.base + self.symbols[name + ".kd"])


class Launch:
    """A kernel with its arguments, and the memory in which one block after another runs."""

    def __init__(self, module, kernel, instructions, request):
        self.module, self.kernel, self.instructions = module, kernel, instructions
        self.grid = request["grid"]
        width, height, depth = request["block"]
        threads = width * height * depth
        self.waves = (threads + LANES - 1) // LANES
        self.arguments = ctypes.create_string_buffer(bytes.fromhex(request["arguments"]))
        # hsa_kernel_dispatch_packet_t, as far as the compiler reads it.
        packet = struct.pack("<HHHHHHIII32x", 0, 3, width, height, depth, 0, *map(int.__mul__, self.grid, request["block"]))
        self.packet = ctypes.create_string_buffer(packet)

        shared_bytes = kernel.shared_bytes + request["shared_bytes"]
        if shared_bytes > request["most_shared_bytes"]:
            raise MemoryError(f"{shared_bytes} bytes of LDS, but a block has {request['most_shared_bytes']} at most")
        shared_words = (shared_bytes + 3) // 4
        self.lds = ctypes.create_string_buffer(max(shared_words, 1) * 4)
        registers = 256 * LANES * 4
        sizes = (SGPR_WORDS * 4, registers, registers, max(kernel.scratch_bytes, 4) * LANES)
        self.memory = [[ctypes.create_string_buffer(size) for size in sizes] for _ in range(self.waves)]
        self.trace = None  # a list: of addresses, of wave 0 in the first block
        self.buffers = []
        for sgprs, vgprs, agprs, scratch in self.memory:
            order = (sgprs, vgprs, None, self.lds, scratch, agprs)
            self.buffers.append((ctypes.c_void_p * 6)(*(b and ctypes.addressof(b) for b in order)))

        self.lane_ids, self.sgprs = [], []
        for wave in range(self.waves):
            ids = range(wave * LANES, wave * LANES + LANES)
            packed = ((i // (width * height)) << 20 | (i // width % height) << 10 | i % width for i in ids)
            self.lane_ids.append(struct.pack(f"<{LANES}I", *packed))
            self.sgprs.append(self.scalar_registers(min(LANES, threads - wave * LANES), shared_words * 4))

    def scalar_registers(self, lanes, shared_bytes):
        """All but the block's numbers. tinygrad has the constants in their places."""
        state = self.instructions.emu.WaveState(lanes, LANES)
        words = list(state.sgpr_buf.as_memoryview(force_zero_copy=True).cast("I"))
        words += [0] * (SGPR_WORDS - len(words))
        words[:EXEC] = [NAN] * EXEC
        if ISA != "cdna":
            words[NULL] = 0
        user = self.kernel.user_registers(ctypes.addressof(self.packet), ctypes.addressof(self.arguments))
        words[: len(user)] = user
        words[PROGRAM_COUNTER : PROGRAM_COUNTER + 2] = words_of(self.kernel.entry)
        words[SCRATCH_STRIDE] = self.kernel.scratch_bytes
        words[SHARED_BYTES] = shared_bytes
        return words

    def place_numbers(self, block, words):
        """The block's, among a wave's scalar registers."""
        if ISA != "cdna":
            words[TTMP7], words[TTMP9] = block[1] | block[2] << 16, block[0]
            return
        numbers = [n for axis, n in enumerate(block) if self.kernel.rsrc2 >> 7 + axis & 1]
        numbers += [0] * (self.kernel.rsrc2 & 1)  # where the wave's scratch memory begins, for gfx90a
        first = self.kernel.rsrc2 >> 1 & 0x1F
        words[first : first + len(numbers)] = numbers

    def begin_block(self, block):
        for memory in [self.lds, *(buffer for buffers in self.memory for buffer in buffers[1:])]:
            ctypes.memmove(memory, poison(len(memory)), len(memory))
        for wave, (sgprs, vgprs, _, _) in enumerate(self.memory):
            self.place_numbers(block, self.sgprs[wave])
            struct.pack_into(f"<{SGPR_WORDS}I", sgprs, 0, *self.sgprs[wave])
            ctypes.memmove(vgprs, self.lane_ids[wave], LANES * 4)

    def run(self, chance):
        x, y, z = self.grid
        blocks = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        chance.shuffle(blocks)
        for block in blocks:
            self.begin_block(block)
            self.run_block(chance, self.trace if block == blocks[0] else None)

    def program_counter(self, wave):
        low, high = struct.unpack_from("<II", self.memory[wave][0], PROGRAM_COUNTER * 4)
        return low | high << 32

    def run_block(self, chance, trace):
        module, wave = self.module, self.instructions.wave
        runnable, waiting = list(range(self.waves)), []
        for _ in range(MOST_TURNS):
            if not runnable:
                if not waiting:
                    return
                runnable, waiting = waiting, []  # all that have not finished are at the barrier
            turn = chance.choice(runnable)
            length = chance.choice(TURN_LENGTHS)
            if trace is not None and turn == 0:
                stop = self.run_traced(length, trace)
            else:
                stop = wave.fmhax_emulation_run(module.program, module.begin, module.end, self.buffers[turn], length)
            if stop == UNKNOWN_INSTRUCTION:
                address = self.program_counter(turn)
                place = (address - module.begin) // 4
                module.names[place], module.program[place] = self.instructions.find(address)
            elif stop != INTERRUPTED:
                runnable.remove(turn)
                if stop == AT_BARRIER:
                    waiting.append(turn)
        raise RuntimeError("a block does not end")

    def run_traced(self, most, trace):
        """A turn of wave 0, one instruction after another."""
        module, wave = self.module, self.instructions.wave
        for _ in range(most):
            address = self.program_counter(0)
            stop = wave.fmhax_emulation_run(module.program, module.begin, module.end, self.buffers[0], 1)
            if stop in (INTERRUPTED, AT_BARRIER):
                trace.append(address - self.kernel.entry)
            if stop != INTERRUPTED:
                return stop
        return INTERRUPTED


@functools.cache
def poison(size):
    return struct.pack("<I", NAN) * (size // 4)


class Device:
    """Carries out the requests of emulated_gpu.cpp."""

    def __init__(self, memory_file, memory_address, library):
        self.wave = ctypes.CDLL(library)
        self.wave.fmhax_emulation_instruction.restype = ctypes.c_void_p
        self.wave.fmhax_emulation_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p,
                                                  ctypes.c_uint64]
        self.instructions = InstructionSet(os.environ["FMHAX_TINYGRAD"], self.wave)
        self.wave.fmhax_emulation_catch_faults()
        self.memory_file, self.memory_address = memory_file, memory_address
        self.modules = {}
        self.chance = random.Random(int(os.environ.get("FMHAX_EMULATION_SEED", "1")))
        self.log = os.environ.get("FMHAX_EMULATION_LOG")
        self.trace = os.environ.get("FMHAX_EMULATION_TRACE")

    def handle(self, request):
        if "map" in request:
            address, size = request["map"]
            map_memory(address, size, self.memory_file, address - self.memory_address)
        elif "unmap" in request:
            libc.munmap(*request["unmap"])
        elif "module" in request:
            self.modules[request["module"]] = Module(ctypes.string_at(request["address"], request["size"]))
        else:
            return self.launch(request)
        return None

    def launch(self, request):
        module = self.modules[request["in"]]
        try:
            launch = Launch(module, module.kernel(request["launch"]), self.instructions, request)
            if self.trace:
                launch.trace = []
            launch.run(self.chance)
        except Exception as error:  # pylint: disable=broad-except
            return {"error": f"{type(error).__name__}: {error}"}
        if self.log:
            append(self.log, {"kernel": request["launch"], "grid": request["grid"], "executed": module.take_counts()})
        if self.trace:
            append(self.trace, {"kernel": request["launch"], "addresses": launch.trace})
        return {}


def append(file, line):
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def main():
    socket, memory_file, memory_address, library = sys.argv[1:]
    device = Device(int(memory_file), int(memory_address), library)
    with os.fdopen(int(socket), "rb") as requests:
        for line in requests:
            answer = device.handle(json.loads(line))
            if answer is not None:
                os.write(int(socket), json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
