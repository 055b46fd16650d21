/// @file Writing a tile of dq that a warp has computed: to dq itself, or to the accumulator.
#pragma once

#include "dq_acc_order.hpp"
#include "mma.cuh"
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
      const int row = m * 16 + i * 8;
      auto* to = reinterpret_cast<std::uint16_t*>(target + row * row_bytes) + first_column;
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        const uint2 four = packed_quad<kType>(sums[m][n], i, scale, lane);
        if (row < rows && n * 16 < columns) store_packed(to + n * 16, four, is_aligned);
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

/// dq_acc += sums, atomically; in deterministic mode written, or where `adds` is true added, without. `target` is the
/// lane's place in the group of rows and 16 columns (dq_acc_order.hpp) where the tile begins, which is at column
/// `column`; `columns` of it are real. References are read when they are needed: registers are short where this is
/// called.
template <int kTilesM, int kTilesN>
__device__ inline void add_to_dq_acc(const Accumulator (&sums)[kTilesM][kTilesN], unsigned char* target,
                                     const std::int64_t& hdim, int column, DqRows rows, int columns,
                                     const bool& is_deterministic, const bool& adds, int lane) {
  const auto write = [&](auto&& height_of, auto&& is_row, auto&& is_column, auto&& put) {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int group = m * 16 + i * kDqGroupRows;
        if (!is_row(group + quad_row(0, lane))) continue;
        const int height = height_of(group);
        auto* to = reinterpret_cast<float*>(target + group * (hdim * 4)) - column * (kDqGroupRows - height);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const float4 quad = row_quad(sums[m][n], i);
          if (is_column(n * 16 + 15)) {
            put(reinterpret_cast<float4*>(to + n * 16 * height), quad);
          } else if (is_column(n * 16 + 7)) {  // the last eight columns
            put(reinterpret_cast<float2*>(to + n * 16 * height - quad_place(lane) / 2), make_float2(quad.x, quad.y));
          }
        }
      }
    }
  };
  const auto always = [](int) { return true; };
  const auto full_height = [](int) { return kDqGroupRows; };
  const auto height = [&](int group) {
    return min(kDqGroupRows, static_cast<int>(rows.physical) - rows.first - group);
  };
  const auto in_rows = [&](int row) { return row < rows.logical - rows.first; };
  const auto in_columns = [&](int i) { return i < columns; };
  const auto add = [](auto* to, const auto& value) { arch::atomic_add(to, value); };
  const auto store = [&](auto* to, auto value) {
    if (adds) {
      value.x += to->x;
      value.y += to->y;
      if constexpr (sizeof(value) == sizeof(float4)) {
        value.z += to->z;
        value.w += to->w;
      }
    }
    *to = value;
  };
  const bool is_whole = rows.logical - rows.first >= kTilesM * 16 && columns >= kTilesN * 16;
  if (is_deterministic) {
    write(height, in_rows, in_columns, store);
  } else if (is_whole) {
    write(full_height, always, always, add);
  } else {
    write(height, in_rows, in_columns, add);
  }
}

}  // namespace fmhax::portable
