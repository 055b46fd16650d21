/// @file Sums, minima and scans over the threads of one block, and a block's place among others.
#pragma once

#include "arch/arch.cuh"

namespace fmhax::portable {

/// Where a block stands among those that share some work.
struct BlockPlace {
  std::int64_t index;
  std::int64_t count;
};

template <typename T>
struct SumOf {
  __device__ T operator()(T a, T b) const { return a + b; }
};
template <typename T>
struct MinimumOf {
  __device__ T operator()(T a, T b) const { return b < a ? b : a; }
};

/// Memory that one block_reduce() or block_scan() shares; not to be used again before the block's next barrier.
template <typename T, int kThreads>
struct BlockMemory {
  static constexpr int kWarps = kThreads / arch::kWarpSize;
  static_assert(kThreads % arch::kWarpSize == 0 && kWarps <= arch::kWarpSize);
  T of_warp[kWarps];
};

/// All values combined, for all threads, in an order that depends on kThreads alone. One barrier.
template <int kThreads, typename T, typename Combine>
__device__ T block_reduce(T value, T neutral, Combine combine, BlockMemory<T, kThreads>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % arch::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / arch::kWarpSize;
#pragma unroll
  for (int distance = arch::kWarpSize / 2; distance > 0; distance /= 2) {
    value = combine(value, arch::shuffle_xor(value, distance));
  }
  if (lane == 0) memory.of_warp[warp] = value;
  __syncthreads();
  value = lane < BlockMemory<T, kThreads>::kWarps ? memory.of_warp[lane] : neutral;
#pragma unroll
  for (int distance = arch::kWarpSize / 2; distance > 0; distance /= 2) {
    value = combine(value, arch::shuffle_xor(value, distance));
  }
  return value;
}

/// A thread's value in a scan over the block.
template <typename T>
struct Scanned {
  T before{};  ///< the sum over all threads before this one
  T total{};   ///< over all
};

/// One barrier.
template <int kThreads, typename T>
__device__ Scanned<T> block_scan(T value, BlockMemory<T, kThreads>& memory) {
  constexpr int kWarps = BlockMemory<T, kThreads>::kWarps;
  const int lane = static_cast<int>(threadIdx.x) % arch::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / arch::kWarpSize;
  const auto scan_warp = [lane](T sum) {
#pragma unroll
    for (int distance = 1; distance < arch::kWarpSize; distance *= 2) {
      const T below = arch::shuffle_up(sum, distance);
      if (lane >= distance) sum += below;
    }
    return sum;
  };
  const T in_warp = scan_warp(value);
  if (lane == arch::kWarpSize - 1) memory.of_warp[warp] = in_warp;
  __syncthreads();
  const T warps = scan_warp(lane < kWarps ? memory.of_warp[lane] : T{});
  const T before_warp = arch::shuffle(warps, warp > 0 ? warp - 1 : 0);
  return {(warp > 0 ? before_warp : T{}) + in_warp - value, arch::shuffle(warps, kWarps - 1)};
}

}  // namespace fmhax::portable
