/// @file Products of a warp's tiles: operands from registers and shared memory, sums in registers. A matrix is an array
/// of tiles of 16 x 16.
#pragma once

#include "arch/mma.cuh"

namespace fmhax::portable {

template <int kTilesM, int kTilesN>
__device__ __forceinline__ void set_to_zero(Accumulator (&sums)[kTilesM][kTilesN]) {
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int n = 0; n < kTilesN; ++n) sums[m][n] = zero_sums();
  }
}

/// sums[m][i] += left_m * rows_i^T, along rows of shared memory; left(m, depth) is an operand.
template <DataType kType, int kDepth, int kPitch, class Left, int kTilesM, int kTilesN>
__device__ __forceinline__ void multiply_rows(Accumulator (&sums)[kTilesM][kTilesN], const Left& left_operand,
                                              const std::uint16_t* rows, int lane) {
  rows += right_deep_offset(kPitch, lane);
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += kDeepTiles) {
    DeepOperand left[kTilesM];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) left[m] = left_operand(m, depth);
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) {
      const DeepOperand right = load_right_deep(rows + i * 16 * kPitch + depth * 16);
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) multiply<kType>(sums[m][i], left[m], right);
    }
  }
}

/// sums[m][n] += left[m][i] * rows_i, summed over i, across rows of shared memory; rows come with this lane's
/// ColumnGroup::offset. Of the sums, tiles share their columns as the groups' do.
template <DataType kType, int kPitch, int kTilesM, int kTilesN, int kDepth>
__device__ __forceinline__ void multiply_columns(Accumulator (&sums)[kTilesM][kTilesN],
                                                 const Operand (&left)[kTilesM][kDepth], const std::uint16_t* rows) {
  constexpr int kGroup = kColumnGroup<kTilesN>;
#pragma unroll
  for (int i = 0; i < kDepth; ++i) {
#pragma unroll
    for (int n = 0; n < kTilesN; n += kGroup) {
      ColumnGroup<kGroup> group;
      group.load(rows + i * 16 * kPitch + n * 16, kPitch);
      Operand right[kGroup];
      group.sort(right);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) multiply<kType>(sums[m][n + g], left[m][i], right[g]);
      }
    }
  }
}

// The same two with all operands in registers, in two parts.

template <int kPitch, int kTiles, int kDepth>
__device__ __forceinline__ void load_rows(const std::uint16_t* rows, int lane, DeepOperand (&to)[kTiles][kDepth]) {
  rows += right_deep_offset(kPitch, lane);
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) to[i][depth] = load_right_deep(rows + i * 16 * kPitch + depth * 16 * kDeepTiles);
  }
}
/// sums[m][i] += left_m * rows_i^T
template <DataType kType, int kTilesM, int kTilesN, int kDepth>
__device__ __forceinline__ void multiply_rows(Accumulator (&sums)[kTilesM][kTilesN],
                                              const DeepOperand (&left)[kTilesM][kDepth],
                                              const DeepOperand (&rows)[kTilesN][kDepth]) {
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) {
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) multiply<kType>(sums[m][i], left[m][depth], rows[i][depth]);
    }
  }
}

template <int kPitch, int kGroup, int kDepth, int kGroups>
__device__ __forceinline__ void load_columns(const std::uint16_t* rows, int lane,
                                             ColumnGroup<kGroup> (&to)[kDepth][kGroups]) {
  rows += ColumnGroup<kGroup>::offset(kPitch, lane);
#pragma unroll
  for (int i = 0; i < kDepth; ++i) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) to[i][n].load(rows + i * 16 * kPitch + n * 16 * kGroup, kPitch);
  }
}
/// sums[m][n] += left[m][i] * rows_i, summed over i. Of the sums, tiles share their columns as the groups' do.
template <DataType kType, int kTilesM, int kTilesN, int kGroup, int kDepth, int kGroups>
__device__ __forceinline__ void multiply_columns(Accumulator (&sums)[kTilesM][kTilesN],
                                                 const Operand (&left)[kTilesM][kDepth],
                                                 const ColumnGroup<kGroup> (&columns)[kDepth][kGroups]) {
  static_assert(kGroup * kGroups == kTilesN && kDeepTiles <= 2);
  constexpr int kDeep = kDepth % kDeepTiles == 0 ? kDeepTiles : 1;
#pragma unroll
  for (int i = 0; i < kDepth; i += kDeep) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      Operand first[kGroup], second[kGroup];
      columns[i][n].sort(first);
      if constexpr (kDeep == 2) columns[i + 1][n].sort(second);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
          Accumulator& sum = sums[m][n * kGroup + g];
          if constexpr (kDeep == 1) {
            multiply<kType>(sum, left[m][i], first[g]);
          } else {
            multiply<kType>(sum, DeepOperand{left[m][i], left[m][i + 1]}, DeepOperand{first[g], second[g]});
          }
        }
      }
    }
  }
}

/// Where an element of dS, P, or K for dq lies in shared memory: the keys along the rows of memory or across them.
template <int kPitch>
__device__ constexpr int key_place(int other, int key) {
  return kKeysAlongRows ? other * kPitch + key : key * kPitch + other;
}

/// Tiles of operands (keys, rows) to and from shared memory; `tile` is the place of the first.
template <int kPitch, int kTilesM, int kTilesN>
__device__ __forceinline__ void store_operands(std::uint16_t* tile, const Operand (&from)[kTilesM][kTilesN], int lane) {
  tile += store_offset(kPitch, lane);
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) store_operand(tile + key_place<kPitch>(i * 16, m * 16), kPitch, from[m][i]);
  }
}
template <int kPitch, int kTilesM, int kTilesN>
__device__ __forceinline__ void load_operands(const std::uint16_t* tile, Operand (&to)[kTilesM][kTilesN], int lane) {
  tile += kKeysAlongRows ? left_transposed_offset(kPitch, lane) : left_offset(kPitch, lane);
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) {
      const std::uint16_t* at = tile + key_place<kPitch>(i * 16, m * 16);
      to[m][i] = kKeysAlongRows ? load_left_transposed(at, kPitch) : load_left(at);
    }
  }
}

}  // namespace fmhax::portable
