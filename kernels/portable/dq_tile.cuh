/// @file Writing a tile of dq that a warp has computed: to dq itself, or to the accumulator.
#pragma once

#include "arch/layouts.hpp"
#include "arch/mma.cuh"
#include "tile_copy.cuh"

namespace fmhax::portable {

/// dq = scale * sums, rounded; of the tile `rows` rows and `columns` columns are real. `target` is the lane's first
/// quad, packed_column(lane) included.
template <DataType kType, int kTilesM, int kTilesN>
__device__ inline void store_dq(const Accumulator (&sums)[kTilesM][kTilesN], unsigned char* target,
                                std::int64_t row_bytes, int first_column, int rows, int columns, float scale,
                                bool is_aligned, int lane) {
  rows -= quad_row(0, lane);
  columns -= packed_column(lane);
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int row = m * 16 + quad_row(i, 0);
      auto* to = reinterpret_cast<std::uint16_t*>(target + row * row_bytes) + first_column;
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        const uint2 four = packed_quad<kType, 1>(sums[m], i, n, scale, lane);
        const int column = quad_column<1>(i, n);
        if (row < rows && column < columns) store_packed(to + column, four, is_aligned);
      }
    }
  }
}

/// Which rows of a sequence a tile of dq has, beginning with row `first`.
struct DqRows {
  int first;
  const std::int64_t& physical;  ///< of the sequence
  const int& logical;
};

__device__ inline float sum_of(float a, float b) { return a + b; }
__device__ inline float2 sum_of(const float2& a, const float2& b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// put() of the first kElements of a quad, in one piece where it is a vector.
template <int kElements, typename Put>
__device__ inline void put_quad(float* to, int stride, const float4& quad, const Put& put) {
  if constexpr (!DqOrder::kQuadsAreVectors) {
    put(to, quad.x);
    put(to + stride, quad.y);
    put(to + 2 * stride, quad.z);
    put(to + 3 * stride, quad.w);
  } else if constexpr (kElements == 4) {
    put(reinterpret_cast<float4*>(to), quad);
  } else {
    put(reinterpret_cast<float2*>(to), make_float2(quad.x, quad.y));
  }
}

/// dq_acc += sums, atomically; in deterministic mode written, or where `adds` is true added, without. `target` is the
/// lane's place in the group of rows and 16 columns (dq_acc_order.hpp) where the tile begins, which is at column
/// `column`; `columns` of it are real. References are read when they are needed: registers are short where this is
/// called.
template <int kTilesM, int kTilesN>
__device__ inline void add_to_dq_acc(const Accumulator (&sums)[kTilesM][kTilesN], unsigned char* target,
                                     const std::int64_t& hdim, int column, DqRows rows, int columns,
                                     const bool& is_deterministic, const bool& adds, int lane) {
  constexpr int kGroupRows = DqOrder::kGroupRows;
  static_assert(quad_row(kQuads - 1, 0) == 16 - kGroupRows);
  const auto write = [&](auto&& height_of, auto&& is_row, auto&& is_column, auto&& put) {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int group = m * 16 + quad_row(i, 0);
        if (!is_row(group + quad_row(0, lane))) continue;
        const int height = height_of(group);
        auto* to = reinterpret_cast<float*>(target + group * (hdim * 4)) - column * (kGroupRows - height) +
                   (quad_place(i, height, 16, lane) - quad_place(0, kGroupRows, 16, lane));
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const float4 quad = row_quad<1>(sums[m], i, n);
          if (is_column(n * 16 + 15)) {
            put_quad<4>(to + n * 16 * height, DqOrder::stride(height, 16), quad, put);
          } else if (is_column(n * 16 + 7)) {  // the last eight columns
            constexpr int kElements = DqOrder::kQuadsAreVectors ? 2 : 4;
            auto* in_half = to + n * 16 * height + quad_place(i, height, 8, lane) - quad_place(i, height, 16, lane);
            if (has_quad(i, 8, lane)) put_quad<kElements>(in_half, DqOrder::stride(height, 8), quad, put);
          }
        }
      }
    }
  };
  const auto always = [](int) { return true; };
  const auto full_height = [](int) { return DqOrder::kGroupRows; };
  const auto height = [&](int group) { return min(kGroupRows, static_cast<int>(rows.physical) - rows.first - group); };
  const auto in_rows = [&](int row) { return row < rows.logical - rows.first; };
  const auto in_columns = [&](int i) { return i < columns; };
  const auto add = [](auto* to, const auto& value) { arch::atomic_add(to, value); };
  const auto store = [&](auto* to, const auto& value) {
    arch::store_global(to, adds ? sum_of(arch::load_global(to), value) : value);
  };
  const bool is_whole = rows.logical - rows.first >= kTilesM * 16 && columns >= kTilesN * 16;
  if (is_whole && !is_deterministic) return write(full_height, always, always, add);
  columns = arch::computed_here(columns);
  if (is_deterministic) {
    write(height, in_rows, in_columns, store);
  } else {
    write(height, in_rows, in_columns, add);
  }
}

}  // namespace fmhax::portable
