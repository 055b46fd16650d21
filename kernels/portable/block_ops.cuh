/// @file Sums, minima and scans over the threads of one block.
#pragma once

#include "arch/arch.cuh"

namespace fmhax::portable {

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

/// All values of a warp combined, for its lanes.
template <typename T, typename Combine>
__device__ T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int distance = arch::kWarpSize / 2; distance > 0; distance /= 2) {
    value = combine(value, arch::shuffle_xor(value, distance));
  }
  return value;
}

/// All values combined, for all threads, in an order that depends on kThreads alone. One barrier.
template <int kThreads, typename T, typename Combine>
__device__ T block_reduce(T value, T neutral, Combine combine, BlockMemory<T, kThreads>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % arch::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / arch::kWarpSize;
  value = warp_reduce(value, combine);
  if (lane == 0) memory.of_warp[warp] = value;
  __syncthreads();
  return warp_reduce(lane < BlockMemory<T, kThreads>::kWarps ? memory.of_warp[lane] : neutral, combine);
}

/// A thread's value in a scan.
template <typename T>
struct Scanned {
  T through{};  ///< the sum over all threads up to this one, its own value too
  T total{};    ///< over all
};

/// Over the lanes of a warp.
template <typename T>
__device__ Scanned<T> warp_scan(T value) {
  const int lane = static_cast<int>(threadIdx.x) % arch::kWarpSize;
#pragma unroll
  for (int distance = 1; distance < arch::kWarpSize; distance *= 2) {
    const T below = arch::shuffle_up(value, distance);
    if (lane >= distance) value += below;
  }
  return {value, arch::shuffle(value, arch::kWarpSize - 1)};
}

/// Over the threads of a block. One barrier.
template <int kThreads, typename T>
__device__ Scanned<T> block_scan(T value, BlockMemory<T, kThreads>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % arch::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / arch::kWarpSize;
  const Scanned<T> in_warp = warp_scan(value);
  if (lane == 0) memory.of_warp[warp] = in_warp.total;
  __syncthreads();
  const Scanned<T> warps = warp_scan(lane < BlockMemory<T, kThreads>::kWarps ? memory.of_warp[lane] : T{});
  const T before_warp = arch::shuffle(warps.through, warp > 0 ? warp - 1 : 0);
  return {(warp > 0 ? before_warp : T{}) + in_warp.through, warps.total};
}

}  // namespace fmhax::portable
