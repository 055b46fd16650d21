/// @file What emulator.py leaves to machine code: a wave going from instruction to instruction, and the instructions
/// that touch memory other than through scalars, or multiply matrices. Compiled once for each instruction set
/// (FMHAX_EMULATED_ISA); isa.hpp names the documents. What a GPU would let pass, such as reading beyond the block's
/// LDS, ends here.
#include "wave.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include "isa.hpp"

namespace fmhax::emulation {
namespace {

using Isa = FMHAX_EMULATED_ISA;
constexpr unsigned kLanes = Isa::kLanes;
constexpr std::uint64_t kEnd = ~std::uint64_t{0};

// Special registers behind the SGPRs: tinygrad's numbers up to 259, ours behind them.
enum SpecialRegister : unsigned {
  kM0OrNull = 124,  ///< M0 on CDNA, no register on RDNA
  kExec = 126,
  kProgramCounter = 256,
  kScratchStride = 259,
  kSharedBytes = 300
};

thread_local std::uint64_t current_instruction = 0;

[[noreturn]] void fail(const char* what, std::uint64_t value) {
  std::fprintf(stderr, "instruction at 0x%llx: %s 0x%llx\n", static_cast<unsigned long long>(current_instruction), what,
               static_cast<unsigned long long>(value));
  std::abort();
}

extern "C" void on_memory_fault(int, siginfo_t* info, void*) {
  fail("no memory at address", reinterpret_cast<std::uintptr_t>(info->si_addr));
}

std::uint64_t pair_at(const std::uint32_t* registers, unsigned index) {
  return registers[index] | std::uint64_t{registers[index + 1]} << 32U;
}

/// The state of a wave as an instruction sees it, and the fields of its encoding.
class Wave {
 public:
  Wave(unsigned bytes, std::uint32_t* sgpr, std::uint32_t* vgpr, std::uint32_t* lds, std::uint8_t* scratch,
       std::uint32_t* agpr)
      : bytes_(bytes),
        sgpr_(sgpr),
        vgpr_(vgpr),
        agpr_(agpr),
        lds_(reinterpret_cast<std::uint8_t*>(lds)),
        scratch_(scratch) {
    std::memcpy(words_, reinterpret_cast<const void*>(pair_at(sgpr, kProgramCounter)), bytes);
  }
  Wave(std::uint32_t* sgpr, std::uint32_t* vgpr, std::uint32_t* lds, std::uint8_t* scratch, std::uint32_t* agpr)
      : Wave(8, sgpr, vgpr, lds, scratch, agpr) {}
  /// Goes on behind the instruction.
  ~Wave() { set_scalar_pair(kProgramCounter, next_instruction()); }
  Wave(const Wave&) = delete;
  Wave& operator=(const Wave&) = delete;

  unsigned field(unsigned low, unsigned width) const {
    return static_cast<unsigned>(words_[low / 32] >> low % 32 & ((1ULL << width) - 1));
  }
  unsigned field(Field f) const { return field(f.low, f.width); }
  std::int64_t signed_field(Field f) const {
    const auto value = static_cast<std::int64_t>(field(f));
    return value < std::int64_t{1} << (f.width - 1) ? value : value - (std::int64_t{1} << f.width);
  }
  /// What the bit says of a register.
  bool is_agpr(unsigned bit) const { return Isa::kHasAgprs && field(bit, 1) != 0; }
  std::uint64_t next_instruction() const { return pair_at(sgpr_, kProgramCounter) + bytes_; }
  void set_scalar_pair(unsigned index, std::uint64_t value) const {
    sgpr_[index] = static_cast<std::uint32_t>(value);
    sgpr_[index + 1] = static_cast<std::uint32_t>(value >> 32U);
  }
  void go_to(std::uint64_t address) const { set_scalar_pair(kProgramCounter, address - bytes_); }
  std::uint32_t scalar(unsigned index) const { return sgpr_[index]; }
  std::uint64_t scalar_pair(unsigned index) const { return pair_at(sgpr_, index); }
  std::uint32_t& vector(bool is_agpr, unsigned index, unsigned lane) const {
    return (is_agpr ? agpr_ : vgpr_)[index * kLanes + lane];
  }
  std::uint64_t vector_pair(unsigned index, unsigned lane) const {
    return vector(false, index, lane) | std::uint64_t{vector(false, index + 1, lane)} << 32U;
  }

  template <typename F>
  void for_active_lanes(const F& f) const {
    for (std::uint64_t rest = kLanes == 64 ? scalar_pair(kExec) : scalar(kExec); rest != 0; rest &= rest - 1) {
      f(static_cast<unsigned>(__builtin_ctzll(rest)));
    }
  }

  std::uint8_t* shared(std::uint64_t address, unsigned bytes) const {
    if (address + bytes > sgpr_[kSharedBytes]) fail("beyond the block's LDS, byte", address);
    if (address % (bytes < 4 ? bytes : 4) != 0) fail("LDS address is not aligned:", address);
    return lds_ + address;
  }
  std::uint8_t* scratch(std::uint64_t offset, unsigned bytes, unsigned lane) const {
    const std::uint64_t stride = sgpr_[kScratchStride];
    if (offset + bytes > stride) fail("beyond the lane's scratch memory, byte", offset);
    return scratch_ + lane * stride + offset;
  }

 private:
  std::uint32_t words_[3] = {};
  unsigned bytes_;
  std::uint32_t* sgpr_;
  std::uint32_t* vgpr_;
  std::uint32_t* agpr_;
  std::uint8_t* lds_;
  std::uint8_t* scratch_;
};

#define FMHAX_WAVE_PARAMETERS \
  std::uint32_t *sgpr, std::uint32_t *vgpr, std::uint32_t *lds, std::uint8_t *scratch, std::uint32_t *agpr
#define FMHAX_WAVE_ARGUMENTS sgpr, vgpr, lds, scratch, agpr

/// How a load fills its registers, and which part of them a store takes.
enum class Part { unsigned_value, signed_value, low_half, high_half };

template <unsigned kBytes, Part kPart>
void load_registers(const Wave& wave, bool is_agpr, unsigned first, unsigned lane, const std::uint8_t* from) {
  if constexpr (kBytes >= 4) {
    std::uint32_t words[kBytes / 4];
    std::memcpy(words, from, kBytes);
    for (unsigned i = 0; i < kBytes / 4; ++i) wave.vector(is_agpr, first + i, lane) = words[i];
  } else {
    std::uint32_t value = 0;
    std::memcpy(&value, from, kBytes);
    if constexpr (kPart == Part::signed_value) {
      value = static_cast<std::uint32_t>(static_cast<std::int32_t>(value << (32 - 8 * kBytes)) >> (32 - 8 * kBytes));
    }
    std::uint32_t& target = wave.vector(is_agpr, first, lane);
    if constexpr (kPart == Part::low_half) {
      target = (target & 0xffff0000U) | value;
    } else if constexpr (kPart == Part::high_half) {
      target = (target & 0xffffU) | value << 16U;
    } else {
      target = value;
    }
  }
}

template <unsigned kBytes, Part kPart>
void store_registers(const Wave& wave, bool is_agpr, unsigned first, unsigned lane, std::uint8_t* to) {
  if constexpr (kBytes >= 4) {
    for (unsigned i = 0; i < kBytes / 4; ++i) std::memcpy(to + 4 * i, &wave.vector(is_agpr, first + i, lane), 4);
  } else {
    const std::uint32_t value = wave.vector(is_agpr, first, lane) >> (kPart == Part::high_half ? 16U : 0U);
    std::memcpy(to, &value, kBytes);
  }
}

// LDS. Fields: offset0 0..7, offset1 8..15, acc 25, addr 32..39, data0 40..47, data1 48..55, vdst 56..63.

template <unsigned kBytes, Part kPart = Part::unsigned_value>
void ds_read(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    const std::uint64_t address = std::uint64_t{wave.vector(false, wave.field(32, 8), lane)} + wave.field(0, 16);
    load_registers<kBytes, kPart>(wave, wave.is_agpr(25), wave.field(56, 8), lane, wave.shared(address, kBytes));
  });
}

template <unsigned kBytes, Part kPart = Part::unsigned_value>
void ds_write(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    const std::uint64_t address = std::uint64_t{wave.vector(false, wave.field(32, 8), lane)} + wave.field(0, 16);
    store_registers<kBytes, kPart>(wave, wave.is_agpr(25), wave.field(40, 8), lane, wave.shared(address, kBytes));
  });
}

/// Two values at offsets that count `kStep` bytes.
template <unsigned kBytes, unsigned kStep>
void ds_read2(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  const bool is_agpr = wave.is_agpr(25);
  wave.for_active_lanes([&](unsigned lane) {
    const std::uint64_t base = wave.vector(false, wave.field(32, 8), lane);
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint8_t* from = wave.shared(base + std::uint64_t{wave.field(8 * i, 8)} * kStep, kBytes);
      load_registers<kBytes, Part::unsigned_value>(wave, is_agpr, wave.field(56, 8) + i * (kBytes / 4), lane, from);
    }
  });
}

template <unsigned kBytes, unsigned kStep>
void ds_write2(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  const bool is_agpr = wave.is_agpr(25);
  wave.for_active_lanes([&](unsigned lane) {
    const std::uint64_t base = wave.vector(false, wave.field(32, 8), lane);
    for (unsigned i = 0; i < 2; ++i) {
      std::uint8_t* to = wave.shared(base + std::uint64_t{wave.field(8 * i, 8)} * kStep, kBytes);
      store_registers<kBytes, Part::unsigned_value>(wave, is_agpr, wave.field(40 + 8 * i, 8), lane, to);
    }
  });
}

/// Lane i gets the word of the lane that its address, divided by 4, names; zero from a lane that is not active.
void ds_bpermute(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  std::uint32_t words[kLanes] = {};
  wave.for_active_lanes([&](unsigned lane) { words[lane] = wave.vector(false, wave.field(40, 8), lane); });
  std::uint32_t sources[kLanes] = {};
  wave.for_active_lanes([&](unsigned lane) {
    sources[lane] = (wave.vector(false, wave.field(32, 8), lane) + wave.field(0, 16)) / 4 % kLanes;
  });
  wave.for_active_lanes([&](unsigned lane) { wave.vector(false, wave.field(56, 8), lane) = words[sources[lane]]; });
}

struct AddFloats {
  static std::uint32_t result(std::uint32_t a, std::uint32_t b) {
    return __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + __builtin_bit_cast(float, b));
  }
};
struct AddIntegers {
  static std::uint32_t result(std::uint32_t a, std::uint32_t b) { return a + b; }
};
struct OrIntegers {
  static std::uint32_t result(std::uint32_t a, std::uint32_t b) { return a | b; }
};
struct TakeLarger {
  static std::uint32_t result(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }
};

template <typename Operation, bool kReturns>
void ds_atomic(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    const std::uint64_t address = std::uint64_t{wave.vector(false, wave.field(32, 8), lane)} + wave.field(0, 16);
    std::uint8_t* at = wave.shared(address, 4);
    std::uint32_t old = 0;
    std::memcpy(&old, at, 4);
    const std::uint32_t sum = Operation::result(old, wave.vector(wave.is_agpr(25), wave.field(40, 8), lane));
    std::memcpy(at, &sum, 4);
    if (kReturns) wave.vector(wave.is_agpr(25), wave.field(56, 8), lane) = old;
  });
}

// Global and scratch memory. Fields: isa.hpp, and acc 55.

enum class Space { global, scratch, flat };

// The upper halves of the addresses by which FLAT instructions reach LDS and scratch memory.
constexpr std::uint64_t kSharedAperture = 0x7ffe0000;
constexpr std::uint64_t kPrivateAperture = 0x7ffd0000;

template <Space kSpace, unsigned kBytes>
std::uint8_t* memory_at(const Wave& wave, unsigned lane) {
  const unsigned vector = wave.field(Isa::kAddress);
  const unsigned scalar = wave.field(Isa::kScalarAddress);
  // saddr 127 (on gfx90a also 125, on RDNA 124): no scalar address. FLAT has none.
  const bool has_scalar = kSpace != Space::flat && scalar < kM0OrNull;
  const auto offset = static_cast<std::uint64_t>(wave.signed_field(Isa::kOffset));
  if constexpr (kSpace == Space::scratch) {
    std::uint64_t address = offset + (has_scalar ? wave.scalar(scalar) : 0);
    if (wave.field(Isa::kAddsVector) != 0) address += wave.vector(false, vector, lane);
    return wave.scratch(address & 0xffffffffU, kBytes, lane);
  }
  const std::uint64_t base =
      has_scalar ? wave.scalar_pair(scalar) + wave.vector(false, vector, lane) : wave.vector_pair(vector, lane);
  const std::uint64_t address = base + offset;
  if constexpr (kSpace == Space::flat) {
    if (address >> 32U == kSharedAperture) return wave.shared(address & 0xffffffffU, kBytes);
    if (address >> 32U == kPrivateAperture) return wave.scratch(address & 0xffffffffU, kBytes, lane);
  }
  return reinterpret_cast<std::uint8_t*>(address);
}

// Calls, of 4 bytes: source 0..7, sdst 16..22.

void get_program_counter(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(4, FMHAX_WAVE_ARGUMENTS);
  wave.set_scalar_pair(wave.field(16, 7), wave.next_instruction());
}

template <bool kKeepsReturnAddress>
void jump(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(4, FMHAX_WAVE_ARGUMENTS);
  const std::uint64_t target = wave.scalar_pair(wave.field(0, 8));
  if (kKeepsReturnAddress) wave.set_scalar_pair(wave.field(16, 7), wave.next_instruction());
  wave.go_to(target);
}

/// s_mov_b64 of src_shared_base or src_private_base, of 4 bytes: source 0..7, sdst 16..22.
void move_aperture(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(4, FMHAX_WAVE_ARGUMENTS);
  constexpr unsigned kSharedBase = 235;
  wave.set_scalar_pair(wave.field(16, 7), (wave.field(0, 8) == kSharedBase ? kSharedAperture : kPrivateAperture)
                                              << 32U);
}

template <Space kSpace, unsigned kBytes, Part kPart = Part::unsigned_value>
void load(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(Isa::kMemoryBytes, FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    load_registers<kBytes, kPart>(wave, wave.is_agpr(55), wave.field(Isa::kTarget), lane,
                                  memory_at<kSpace, kBytes>(wave, lane));
  });
}

template <Space kSpace, unsigned kBytes, Part kPart = Part::unsigned_value>
void store(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(Isa::kMemoryBytes, FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    store_registers<kBytes, kPart>(wave, wave.is_agpr(55), wave.field(Isa::kData), lane,
                                   memory_at<kSpace, kBytes>(wave, lane));
  });
}

template <typename Operation>
void global_atomic(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(Isa::kMemoryBytes, FMHAX_WAVE_ARGUMENTS);
  const bool is_agpr = wave.is_agpr(55);
  wave.for_active_lanes([&](unsigned lane) {
    std::uint8_t* at = memory_at<Space::global, 4>(wave, lane);
    std::uint32_t old = 0;
    std::memcpy(&old, at, 4);
    const std::uint32_t sum = Operation::result(old, wave.vector(is_agpr, wave.field(Isa::kData), lane));
    std::memcpy(at, &sum, 4);
    if (wave.field(Isa::kReturns) != 0) wave.vector(is_agpr, wave.field(Isa::kTarget), lane) = old;
  });
}

// Buffers are how gfx90a reaches scratch memory, and nothing else here uses them. Fields: offset 0..11, offen 12,
// vaddr 32..39, vdata 40..47, acc 55, soffset 56..63.

std::uint64_t buffer_offset(const Wave& wave, unsigned lane) {
  const unsigned soffset = wave.field(56, 8);
  const std::uint64_t offset = wave.field(0, 12) + std::uint64_t{wave.scalar(soffset)};
  return wave.field(12, 1) != 0 ? offset + wave.vector(false, wave.field(32, 8), lane) : offset;
}

template <unsigned kBytes, Part kPart = Part::unsigned_value>
void buffer_load(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    load_registers<kBytes, kPart>(wave, wave.is_agpr(55), wave.field(40, 8), lane,
                                  wave.scratch(buffer_offset(wave, lane), kBytes, lane));
  });
}

template <unsigned kBytes, Part kPart = Part::unsigned_value>
void buffer_store(FMHAX_WAVE_PARAMETERS) {
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  wave.for_active_lanes([&](unsigned lane) {
    store_registers<kBytes, kPart>(wave, wave.is_agpr(55), wave.field(40, 8), lane,
                                   wave.scratch(buffer_offset(wave, lane), kBytes, lane));
  });
}

/// Of caches, which are not emulated.
void write_back_or_invalidate(FMHAX_WAVE_PARAMETERS) { const Wave wave(Isa::kMemoryBytes, FMHAX_WAVE_ARGUMENTS); }

// Matrices: D = A B + C of kSize x kSize with depth kDepth, whatever EXEC says. Fields: vdst 0..7, acc_cd 15,
// src0 32..40, src1 41..49, src2 50..58, acc of src0 and src1 59, 60; what else CDNA has between 8 and 14 and RDNA
// between 8 and 13, and both from 61 on, changes operands.

float float_of_bf16(std::uint16_t bits) { return __builtin_bit_cast(float, std::uint32_t{bits} << 16U); }
float float_of_fp16(std::uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }

template <unsigned kSize, unsigned kDepth, float (*kWiden)(std::uint16_t)>
void multiply_matrices(FMHAX_WAVE_PARAMETERS) {
  constexpr unsigned kGroups = kLanes / kSize;        // of lanes, each with its share of the depth
  constexpr unsigned kShare = kDepth / kGroups;       // elements of A (B) in a lane
  constexpr unsigned kSums = kSize * kSize / kLanes;  // elements of C and D in a lane
  constexpr unsigned kRun = Isa::kNeighbouringSums;
  const Wave wave(FMHAX_WAVE_ARGUMENTS);
  if (wave.field(61, 3) != 0 || wave.field(8, Isa::kHasAgprs ? 7 : 6) != 0)
    fail("changed matrix operands are not known, bits", wave.field(0, 32));

  // Both by depth and then by row of A or column of B, so that the sums of a row are neighbours.
  const auto unpack = [&](unsigned source, bool is_agpr, float(&to)[kDepth][kSize]) {
    if (source < 256) fail("a matrix in scalar register", source);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      for (unsigned j = 0; j < kShare; ++j) {
        const std::uint32_t word = wave.vector(is_agpr, source - 256 + j / 2, lane);
        to[lane / kSize * kShare + j][lane % kSize] = kWiden(static_cast<std::uint16_t>(word >> (j % 2 * 16)));
      }
    }
  };
  float a[kDepth][kSize];
  float b[kDepth][kSize];
  unpack(wave.field(32, 9), wave.is_agpr(59), a);
  unpack(wave.field(41, 9), wave.is_agpr(60), b);
  float products[kSize][kSize] = {};
  for (unsigned k = 0; k < kDepth; ++k) {
    for (unsigned row = 0; row < kSize; ++row) {
      for (unsigned column = 0; column < kSize; ++column) products[row][column] += a[k][row] * b[k][column];
    }
  }

  // C is read before D is written: their registers may overlap.
  const unsigned addend = wave.field(50, 9);
  const bool is_agpr = wave.is_agpr(15);
  float sums[kSums][kLanes];
  for (unsigned i = 0; i < kSums; ++i) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = i / kRun * kRun * kGroups + lane / kSize * kRun + i % kRun;
      const std::uint32_t bits = addend < 256 ? wave.scalar(addend) : wave.vector(is_agpr, addend - 256 + i, lane);
      sums[i][lane] = __builtin_bit_cast(float, bits) + products[row][lane % kSize];
    }
  }
  for (unsigned i = 0; i < kSums; ++i) {
    std::memcpy(&wave.vector(is_agpr, wave.field(0, 8) + i, 0), sums[i], sizeof(sums[i]));
  }
}

using Function = void (*)(FMHAX_WAVE_PARAMETERS);
struct Row {
  std::string_view name;
  Function function;
};

constexpr Row kRows[] = {
// CDNA and RDNA differ in parts of the names.
#define FMHAX_LDS_ROWS(read, write, two, strided)                                                                      \
  {"DS_" read "_U8", ds_read<1>}, {"DS_" read "_I8", ds_read<1, Part::signed_value>}, {"DS_" read "_U16", ds_read<2>}, \
      {"DS_" read "_I16", ds_read<2, Part::signed_value>}, {"DS_" read "_U16_D16", ds_read<2, Part::low_half>},        \
      {"DS_" read "_U16_D16_HI", ds_read<2, Part::high_half>}, {"DS_" read "_B32", ds_read<4>},                        \
      {"DS_" read "_B64", ds_read<8>}, {"DS_" read "_B96", ds_read<12>}, {"DS_" read "_B128", ds_read<16>},            \
      {"DS_" read two "_B32", ds_read2<4, 4>}, {"DS_" read two "_B64", ds_read2<8, 8>},                                \
      {"DS_" read strided "_B32", ds_read2<4, 256>}, {"DS_" read strided "_B64", ds_read2<8, 512>},                    \
      {"DS_" write "_B8", ds_write<1>}, {"DS_" write "_B16", ds_write<2>},                                             \
      {"DS_" write "_B16_D16_HI", ds_write<2, Part::high_half>}, {"DS_" write "_B32", ds_write<4>},                    \
      {"DS_" write "_B64", ds_write<8>}, {"DS_" write "_B96", ds_write<12>}, {"DS_" write "_B128", ds_write<16>},      \
      {"DS_" write two "_B32", ds_write2<4, 4>}, {"DS_" write two "_B64", ds_write2<8, 8>},                            \
      {"DS_" write strided "_B32", ds_write2<4, 256>}, {                                                               \
    "DS_" write strided "_B64", ds_write2<8, 512>                                                                      \
  }
    FMHAX_LDS_ROWS("READ", "WRITE", "2", "2ST64"),
    FMHAX_LDS_ROWS("LOAD", "STORE", "_2ADDR", "_2ADDR_STRIDE64"),
#undef FMHAX_LDS_ROWS
    {"DS_BPERMUTE_B32", ds_bpermute},
    {"DS_ADD_F32", ds_atomic<AddFloats, false>},
    {"DS_ADD_U32", ds_atomic<AddIntegers, false>},
    {"DS_ADD_RTN_U32", ds_atomic<AddIntegers, true>},
    {"DS_OR_B32", ds_atomic<OrIntegers, false>},
#define FMHAX_MEMORY_ROWS(prefix, load, store, ...)                                                                   \
  {prefix "LOAD_UBYTE", load<__VA_ARGS__ 1>}, {prefix "LOAD_SBYTE", load<__VA_ARGS__ 1, Part::signed_value>},         \
      {prefix "LOAD_USHORT", load<__VA_ARGS__ 2>}, {prefix "LOAD_SSHORT", load<__VA_ARGS__ 2, Part::signed_value>},   \
      {prefix "LOAD_SHORT_D16", load<__VA_ARGS__ 2, Part::low_half>},                                                 \
      {prefix "LOAD_SHORT_D16_HI", load<__VA_ARGS__ 2, Part::high_half>}, {prefix "LOAD_DWORD", load<__VA_ARGS__ 4>}, \
      {prefix "LOAD_DWORDX2", load<__VA_ARGS__ 8>}, {prefix "LOAD_DWORDX3", load<__VA_ARGS__ 12>},                    \
      {prefix "LOAD_DWORDX4", load<__VA_ARGS__ 16>}, {prefix "STORE_BYTE", store<__VA_ARGS__ 1>},                     \
      {prefix "STORE_BYTE_D16_HI", store<__VA_ARGS__ 1, Part::high_half>},                                            \
      {prefix "STORE_SHORT", store<__VA_ARGS__ 2>},                                                                   \
      {prefix "STORE_SHORT_D16_HI", store<__VA_ARGS__ 2, Part::high_half>},                                           \
      {prefix "STORE_DWORD", store<__VA_ARGS__ 4>}, {prefix "STORE_DWORDX2", store<__VA_ARGS__ 8>},                   \
      {prefix "STORE_DWORDX3", store<__VA_ARGS__ 12>}, {                                                              \
    prefix "STORE_DWORDX4", store<__VA_ARGS__ 16>                                                                     \
  }
    FMHAX_MEMORY_ROWS("GLOBAL_", load, store, Space::global, ),
    FMHAX_MEMORY_ROWS("FLAT_", load, store, Space::flat, ),
    FMHAX_MEMORY_ROWS("SCRATCH_", load, store, Space::scratch, ),
    FMHAX_MEMORY_ROWS("BUFFER_", buffer_load, buffer_store),
#undef FMHAX_MEMORY_ROWS
#define FMHAX_RDNA_MEMORY_ROWS(prefix, space)                                                               \
  {prefix "LOAD_U8", load<space, 1>}, {prefix "LOAD_I8", load<space, 1, Part::signed_value>},               \
      {prefix "LOAD_U16", load<space, 2>}, {prefix "LOAD_I16", load<space, 2, Part::signed_value>},         \
      {prefix "LOAD_D16_B16", load<space, 2, Part::low_half>},                                              \
      {prefix "LOAD_D16_HI_B16", load<space, 2, Part::high_half>}, {prefix "LOAD_B32", load<space, 4>},     \
      {prefix "LOAD_B64", load<space, 8>}, {prefix "LOAD_B96", load<space, 12>},                            \
      {prefix "LOAD_B128", load<space, 16>}, {prefix "STORE_B8", store<space, 1>},                          \
      {prefix "STORE_D16_HI_B8", store<space, 1, Part::high_half>}, {prefix "STORE_B16", store<space, 2>},  \
      {prefix "STORE_D16_HI_B16", store<space, 2, Part::high_half>}, {prefix "STORE_B32", store<space, 4>}, \
      {prefix "STORE_B64", store<space, 8>}, {prefix "STORE_B96", store<space, 12>}, {                      \
    prefix "STORE_B128", store<space, 16>                                                                   \
  }
    FMHAX_RDNA_MEMORY_ROWS("GLOBAL_", Space::global),
    FMHAX_RDNA_MEMORY_ROWS("FLAT_", Space::flat),
    FMHAX_RDNA_MEMORY_ROWS("SCRATCH_", Space::scratch),
#undef FMHAX_RDNA_MEMORY_ROWS
    {"GLOBAL_WB", write_back_or_invalidate},
    {"GLOBAL_INV", write_back_or_invalidate},
    {"GLOBAL_WBINV", write_back_or_invalidate},
    {"BUFFER_WBL2", write_back_or_invalidate},
    {"BUFFER_INV", write_back_or_invalidate},
    {"GLOBAL_ATOMIC_ADD_F32", global_atomic<AddFloats>},
    {"GLOBAL_ATOMIC_ADD", global_atomic<AddIntegers>},
    {"GLOBAL_ATOMIC_ADD_U32", global_atomic<AddIntegers>},
    {"GLOBAL_ATOMIC_UMAX", global_atomic<TakeLarger>},
    {"GLOBAL_ATOMIC_MAX_U32", global_atomic<TakeLarger>},
    {"S_MOV_B64 aperture", move_aperture},
    {"S_GETPC_B64", get_program_counter},
    {"S_SETPC_B64", jump<false>},
    {"S_SWAPPC_B64", jump<true>},
    {"V_MFMA_F32_16X16X16_F16", multiply_matrices<16, 16, float_of_fp16>},
    {"V_MFMA_F32_16X16X16_BF16", multiply_matrices<16, 16, float_of_bf16>},
    {"V_MFMA_F32_16X16X32_F16", multiply_matrices<16, 32, float_of_fp16>},
    {"V_MFMA_F32_16X16X32_BF16", multiply_matrices<16, 32, float_of_bf16>},
    {"V_WMMA_F32_16X16X16_F16", multiply_matrices<16, 16, float_of_fp16>},
    {"V_WMMA_F32_16X16X16_BF16", multiply_matrices<16, 16, float_of_bf16>},
    {"V_MFMA_F32_32X32X8_F16", multiply_matrices<32, 8, float_of_fp16>},
    {"V_MFMA_F32_32X32X8_BF16", multiply_matrices<32, 8, float_of_bf16>},
    {"V_MFMA_F32_32X32X16_F16", multiply_matrices<32, 16, float_of_fp16>},
    {"V_MFMA_F32_32X32X16_BF16", multiply_matrices<32, 16, float_of_bf16>},
};

using Pointer = void*;
void call(const Instruction& i, void* const* b) {
  const auto at = [&](unsigned n) { return b[i.buffer[n]]; };
  switch (i.buffer_count) {
    case 1:
      return reinterpret_cast<void (*)(Pointer)>(i.function)(at(0));
    case 2:
      return reinterpret_cast<void (*)(Pointer, Pointer)>(i.function)(at(0), at(1));
    case 3:
      return reinterpret_cast<void (*)(Pointer, Pointer, Pointer)>(i.function)(at(0), at(1), at(2));
    case 4:
      return reinterpret_cast<void (*)(Pointer, Pointer, Pointer, Pointer)>(i.function)(at(0), at(1), at(2), at(3));
    default:
      return reinterpret_cast<void (*)(Pointer, Pointer, Pointer, Pointer, Pointer)>(i.function)(at(0), at(1), at(2),
                                                                                                 at(3), at(4));
  }
}

}  // namespace
}  // namespace fmhax::emulation

using namespace fmhax::emulation;

void* fmhax_emulation_instruction(const char* name) {
  for (const Row& row : kRows) {
    if (row.name == name) return reinterpret_cast<void*>(row.function);
  }
  return nullptr;
}

int fmhax_emulation_run(Instruction* program, std::uint64_t begin, std::uint64_t end, void* const* buffers,
                        std::uint64_t most) {
  const auto* sgpr = static_cast<const std::uint32_t*>(buffers[0]);
  for (std::uint64_t count = 0; count < most; ++count) {
    const std::uint64_t pc = pair_at(sgpr, kProgramCounter);
    if (pc == kEnd) return kFinished;
    if (pc < begin || pc >= end) fail("jump out of the program to", pc);
    Instruction& instruction = program[(pc - begin) / 4];
    if (instruction.function == nullptr) return kUnknownInstruction;
    current_instruction = pc - begin;
    call(instruction, buffers);
    ++instruction.executed;
    if (instruction.is_barrier != 0) return kAtBarrier;
  }
  return kInterrupted;
}

void fmhax_emulation_catch_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_memory_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}
