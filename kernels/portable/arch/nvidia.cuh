/// @file What NVIDIA's GPUs (sm_80 and newer) have of their own: the trait through which the portable kernels reach
/// them. Another architecture offers the same names.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// Marks a kernel's const parameter that is read where it lies: no thread gets a copy when its address is taken.
#define FMHAX_KERNEL_PARAMETER __grid_constant__
/// Marks a function that is too large for several copies.
#define FMHAX_OUT_OF_LINE __noinline__

namespace fmhax::portable::arch {

inline constexpr int kWarpSize = 32;

/// Every lane of the warp must take part in these.
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffU, value, lane_mask);
}
/// The value of lane `source`.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int source) {
  return __shfl_sync(0xffffffffU, value, source);
}
/// The value `delta` lanes below; a lane's own where there is none.
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, int delta) {
  return __shfl_up_sync(0xffffffffU, value, delta);
}
/// Bit i: whether lane i's predicate holds.
__device__ __forceinline__ std::uint64_t ballot(bool predicate) { return __ballot_sync(0xffffffffU, predicate); }

/// A value of 2 to 16 bytes in device memory, aligned to its size.
template <typename T>
__device__ __forceinline__ T load_global(const T* from) {
  return *from;
}
template <typename T>
__device__ __forceinline__ void store_global(T* to, const T& value) {
  *to = value;
}

/// Memory that is read once, or written and not read soon: loads and stores that leave the caches to others.
__device__ __forceinline__ uint4 load_streaming(const uint4* from) { return __ldcs(from); }
__device__ __forceinline__ float4 load_streaming(const float4* from) { return __ldcs(from); }
__device__ __forceinline__ float load_streaming(const float* from) { return __ldcs(from); }
__device__ __forceinline__ void store_streaming(uint4* to, uint4 value) { __stcs(to, value); }
__device__ __forceinline__ void store_streaming(uint2* to, uint2 value) { __stcs(to, value); }

/// Two 16-bit floats in 32 bits, the first in the lower half; rounding is to nearest, ties to even.
__device__ __forceinline__ float2 fp16_pair_to_floats(std::uint32_t pair) {
  __half2 halves;
  __builtin_memcpy(&halves, &pair, sizeof(halves));
  return __half22float2(halves);
}
__device__ __forceinline__ std::uint32_t floats_to_fp16_pair(float first, float second) {
  const __half2 halves = __floats2half2_rn(first, second);
  std::uint32_t pair = 0;
  __builtin_memcpy(&pair, &halves, sizeof(pair));
  return pair;
}
__device__ __forceinline__ std::uint32_t floats_to_bf16_pair(float first, float second) {
  const __nv_bfloat162 halves = __floats2bfloat162_rn(first, second);
  std::uint32_t pair = 0;
  __builtin_memcpy(&pair, &halves, sizeof(pair));
  return pair;
}

/// What AMD needs for a cheap rounding; here it is one instruction for all numbers.
__device__ __forceinline__ float plain_nan(float value) { return value; }
__device__ __forceinline__ std::uint32_t plain_floats_to_bf16_pair(float first, float second) {
  return floats_to_bf16_pair(first, second);
}

/// 2 to the power of x, to about 2 units in the last place; 0 for -infinity.
__device__ __forceinline__ float fast_exp2(float x) {
  float result = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// target += value, each element atomically, the elements together not; aligned to its size.
__device__ __forceinline__ void atomic_add(float4* target, const float4& value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
#else
  atomicAdd(&target->x, value.x);
  atomicAdd(&target->y, value.y);
  atomicAdd(&target->z, value.z);
  atomicAdd(&target->w, value.w);
#endif
}
__device__ __forceinline__ void atomic_add(float2* target, const float2& value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(target), "f"(value.x), "f"(value.y) : "memory");
#else
  atomicAdd(&target->x, value.x);
  atomicAdd(&target->y, value.y);
#endif
}

/// The same number, from which nothing need be computed ahead: here the compiler doesn't.
template <typename T>
__device__ __forceinline__ T computed_here(T value) {
  return value;
}

/// The kernel's parameter that lies `kOffset` bytes from its first; constant memory is an operand of most instructions.
template <std::size_t kOffset, typename T>
__device__ __forceinline__ const T& read_again(const T& parameter) {
  return parameter;
}

}  // namespace fmhax::portable::arch
