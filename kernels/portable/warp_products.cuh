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

/// sums[m][i] += left_m * rows_i^T, along rows of memory. The left operand is held, or lies in shared memory.
template <DataType kType, bool kHoldsLeft, int kPitch, int kTilesM, int kTilesN, int kDepth>
__device__ __forceinline__ void multiply_rows(Accumulator (&sums)[kTilesM][kTilesN],
                                              const DeepOperand (&held)[kTilesM][kDepth],
                                              const std::uint16_t* left_rows, const std::uint16_t* rows, int lane) {
  left_rows += left_deep_offset(kPitch, lane);
  rows += right_deep_offset(kPitch, lane);
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
    const int column = depth * 16 * kDeepTiles;
    DeepOperand left[kTilesM];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
      left[m] = kHoldsLeft ? held[m][depth] : load_left_deep(left_rows + m * 16 * kPitch + column);
    }
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) {
      const DeepOperand right = load_right_deep(rows + i * 16 * kPitch + column);
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) multiply<kType>(sums[m][i], left[m], right);
    }
  }
}

/// sums[m][n] += left[m][i] * rows_i, summed over i; rows come with this lane's right_group_offset. Of the sums, tiles
/// share their columns as the operands' do (kColumnGroup).
template <DataType kType, int kPitch, int kTilesM, int kTilesN, int kDepth>
__device__ __forceinline__ void accumulate(Accumulator (&sums)[kTilesM][kTilesN],
                                           const Operand (&left)[kTilesM][kDepth], const std::uint16_t* rows) {
  constexpr int kGroup = kColumnGroup<kTilesN>;
  constexpr int kDeep = kDepth % kDeepTiles == 0 ? kDeepTiles : 1;
#pragma unroll
  for (int i = 0; i < kDepth; i += kDeep) {
#pragma unroll
    for (int n = 0; n < kTilesN; n += kGroup) {
      Operand right[kDeep][kGroup];
#pragma unroll
      for (int d = 0; d < kDeep; ++d) load_right_group(rows + (i + d) * 16 * kPitch + n * 16, kPitch, right[d]);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
          if constexpr (kDeep == 1) {
            multiply<kType>(sums[m][n + g], left[m][i], right[0][g]);
          } else {
            multiply<kType>(sums[m][n + g], DeepOperand{left[m][i], left[m][i + 1]},
                            DeepOperand{right[0][g], right[1][g]});
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
  static_assert(!kKeysAlongRows);
  tile += left_offset(kPitch, lane);
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int i = 0; i < kTilesN; ++i) to[m][i] = load_left(tile + key_place<kPitch>(i * 16, m * 16));
  }
}

}  // namespace fmhax::portable
