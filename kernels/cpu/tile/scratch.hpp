/// @file How the scratch memory of a block is divided.
#pragma once

#include "tile/convert.hpp"
#include "tile/gemm.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

/// Distance of rows of `columns` floats: whole cache lines, an odd number of them, so that a column of a
/// matrix spreads over all sets of the cache.
FMHAX_CPU_INLINE std::int64_t padded_stride(std::int64_t columns) { return ((columns + 15) / 16 | 1) * 16; }

/// Hands out matrices one after another.
struct Carver {
  float* memory;
  FMHAX_CPU_INLINE Rows take(std::int64_t rows, std::int64_t columns) {
    const Rows result{memory, padded_stride(columns)};
    memory += rows * result.stride;
    return result;
  }
};

FMHAX_CPU_INLINE ConstRows as_const(Rows rows) { return {rows.data, rows.stride}; }

FMHAX_CPU_INLINE std::int64_t vectors(std::int64_t columns) { return (columns + kLanes - 1) / kLanes; }

/// Rows of an input tile to fp32.
template <class Element>
FMHAX_CPU_INLINE void load_tile(InputRows from, std::int64_t rows, std::int64_t columns, Rows to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    widen_row(static_cast<const Element*>(from.data) + r * from.stride, columns, to.data + r * to.stride);
  }
}

FMHAX_CPU_INLINE void fill_rows(Rows to, std::int64_t begin, std::int64_t end, std::int64_t columns, float value) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t c = 0; c < columns; c += kLanes) store(to.data + r * to.stride + c, splat(value));
  }
}

/// to[c][r] = from[r][c] for `rows` and `columns` that are multiples of 4.
FMHAX_CPU_THREAD_PRIVATE inline void transpose(ConstRows from, std::int64_t rows, std::int64_t columns, Rows to) {
  for (std::int64_t r = 0; r < rows; r += 4) {
    for (std::int64_t c = 0; c < columns; c += 4) {
      const float* in = from.data + r * from.stride + c;
      float* out = to.data + c * to.stride + r;
      const auto a = load<4>(in);
      const auto b = load<4>(in + from.stride);
      const auto d = load<4>(in + 2 * from.stride);
      const auto e = load<4>(in + 3 * from.stride);
      const auto ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const auto ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const auto de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const auto de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      store<4>(out, __builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5));
      store<4>(out + to.stride, __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7));
      store<4>(out + 2 * to.stride, __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5));
      store<4>(out + 3 * to.stride, __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7));
    }
  }
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
