/// @file The instruction sets that the tile arithmetic is compiled for, and the choice among them.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu {

enum class Isa : std::int32_t {
  generic = 0,  ///< what every processor of the architecture has (x86-64: SSE2)
  avx2 = 1,     ///< x86-64-v3: AVX2, FMA, F16C
  avx512 = 2    ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

/// The highest level that this processor and operating system have and this build contains.
Isa detected_isa() noexcept;

/// detected_isa(), capped by the environment variable FMHAX_CPU_ISA (generic, avx2 or avx512; anything else
/// is ignored). Read once.
Isa allowed_isa() noexcept;

/// The arithmetic for one level, at most detected_isa(), and one element type.
const TileOps& tile_ops(Isa isa, DataType dtype) noexcept;

}  // namespace fmhax::cpu
