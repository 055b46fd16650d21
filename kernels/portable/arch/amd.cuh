/// @file What AMD's GPUs (gfx90a, gfx942, gfx950, gfx1201) have of their own: the trait through which the portable
/// kernels reach them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/layouts.hpp"

/// Kernel parameters lie in constant memory and are read where they are needed anyway.
#define FMHAX_KERNEL_PARAMETER
/// Marks a function that is too large for several copies. None here: a call takes kernel parameters to a stack.
#define FMHAX_OUT_OF_LINE

namespace fmhax::portable::arch {

inline constexpr int kWarpSize = warp_size(kTileSet);

namespace detail {

using Words4 = std::uint32_t __attribute__((ext_vector_type(4)));
using Words2 = std::uint32_t __attribute__((ext_vector_type(2)));

template <std::size_t kBytes>
struct WordsOf;
template <>
struct WordsOf<16> {
  using Type = Words4;
};
template <>
struct WordsOf<8> {
  using Type = Words2;
};
template <>
struct WordsOf<4> {
  using Type = std::uint32_t;
};
template <>
struct WordsOf<2> {
  using Type = std::uint16_t;
};
/// Device memory: without its name an address may also be one of shared memory, which costs a wait for both.
template <typename T>
using InGlobalMemory = __attribute__((address_space(1))) typename WordsOf<sizeof(T)>::Type;

__device__ __forceinline__ std::uint32_t bits_of(float value) { return __float_as_uint(value); }

/// A word of the lane that `source_bytes` / 4 names.
__device__ __forceinline__ std::uint32_t permute(int source_bytes, std::uint32_t word) {
  return static_cast<std::uint32_t>(__builtin_amdgcn_ds_bpermute(source_bytes, static_cast<int>(word)));
}

/// The value that lane `source` holds, word by word.
template <typename T>
__device__ __forceinline__ T value_of_lane(T value, int source) {
  static_assert(sizeof(T) % 4 == 0);
  std::uint32_t words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
  for (std::uint32_t& word : words) word = permute(source * 4, word);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}

/// std::bit_cast for HIP's vectors too, which before HIP 6 are not trivially copyable.
template <typename To, typename From>
__device__ __forceinline__ To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

__device__ __forceinline__ int lane() { return static_cast<int>(__lane_id()); }

}  // namespace detail

/// Every lane of the warp must take part in these.
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask) {
  return detail::value_of_lane(value, detail::lane() ^ lane_mask);
}
/// The value of lane `source`.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int source) {
  return detail::value_of_lane(value, source);
}
/// The value `delta` lanes below; a lane's own where there is none.
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, int delta) {
  const int source = detail::lane() - delta;
  return detail::value_of_lane(value, source < 0 ? detail::lane() : source);
}
/// Bit i: whether lane i's predicate holds.
__device__ __forceinline__ std::uint64_t ballot(bool predicate) { return __ballot(predicate ? 1 : 0); }

/// A value of 2 to 16 bytes in device memory, aligned to its size.
template <typename T>
__device__ __forceinline__ T load_global(const T* from) {
  return detail::bits_as<T>(*(const detail::InGlobalMemory<T>*)from);  // NOLINT: a cast between address spaces
}
template <typename T>
__device__ __forceinline__ void store_global(T* to, const T& value) {
  *(detail::InGlobalMemory<T>*)to =  // NOLINT: a cast between address spaces
      detail::bits_as<typename detail::WordsOf<sizeof(T)>::Type>(value);
}

/// Memory that is read once, or written and not read soon: loads and stores that leave the caches to others.
template <typename T>
__device__ __forceinline__ T load_streaming(const T* from) {
  return detail::bits_as<T>(
      __builtin_nontemporal_load((const detail::InGlobalMemory<T>*)from));  // NOLINT: a cast between address spaces
}
template <typename T>
__device__ __forceinline__ void store_streaming(T* to, const T& value) {
  __builtin_nontemporal_store(detail::bits_as<typename detail::WordsOf<sizeof(T)>::Type>(value),
                              (detail::InGlobalMemory<T>*)to);  // NOLINT: a cast between address spaces
}

/// Two 16-bit floats in 32 bits, the first in the lower half; rounding is to nearest, ties to even.
__device__ __forceinline__ float2 fp16_pair_to_floats(std::uint32_t pair) {
  _Float16 halves[2];
  __builtin_memcpy(halves, &pair, sizeof(halves));
  return {static_cast<float>(halves[0]), static_cast<float>(halves[1])};
}
__device__ __forceinline__ std::uint32_t floats_to_fp16_pair(float first, float second) {
  const _Float16 halves[2] = {static_cast<_Float16>(first), static_cast<_Float16>(second)};
  std::uint32_t pair = 0;
  __builtin_memcpy(&pair, halves, sizeof(pair));
  return pair;
}
/// A NaN becomes one whose lower half is 0, as those are that come of 16-bit numbers. For these there is a cheaper
/// rounding: there is no instruction for it before gfx950, and added to other NaNs it may carry into the sign.
__device__ __forceinline__ float plain_nan(float value) {
  return value != value ? __uint_as_float(0x7fc00000U) : value;
}

#if defined(__gfx950__)
__device__ __forceinline__ std::uint32_t plain_floats_to_bf16_pair(float first, float second) {
  using Halves = __bf16 __attribute__((ext_vector_type(2)));
  using Floats = float __attribute__((ext_vector_type(2)));
  const auto halves = __builtin_convertvector((Floats{first, second}), Halves);
  return __builtin_bit_cast(std::uint32_t, halves);
}
__device__ __forceinline__ std::uint32_t floats_to_bf16_pair(float first, float second) {
  return plain_floats_to_bf16_pair(first, second);
}
#else
__device__ __forceinline__ std::uint32_t plain_floats_to_bf16_pair(float first, float second) {
  const auto rounded = [](float value) {
    const std::uint32_t bits = detail::bits_of(value);
    return bits + 0x7fffU + (bits >> 16U & 1U);
  };
  return __builtin_amdgcn_perm(rounded(second), rounded(first), 0x07060302U);
}
__device__ __forceinline__ std::uint32_t floats_to_bf16_pair(float first, float second) {
  return plain_floats_to_bf16_pair(plain_nan(first), plain_nan(second));
}
#endif

/// 2 to the power of x, to about 1 unit in the last place; 0 for -infinity.
__device__ __forceinline__ float fast_exp2(float x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else
  return __builtin_exp2f(x);  // the instruction itself before clang 17
#endif
}

/// target += value, atomically.
__device__ __forceinline__ void atomic_add(float* target, float value) {
#if defined(__gfx90a__)
  // The compiler forgets that this memory is the device's own where it makes one addition of two, and loops over a
  // compare and swap.
  asm volatile("global_atomic_add_f32 %0, %1, off" ::"v"(target), "v"(value) : "memory");
#else
  using Global = __attribute__((address_space(1))) float;
  __builtin_amdgcn_global_atomic_fadd_f32((Global*)target, value);  // NOLINT: a cast between address spaces
#endif
}

/// The same number, of which the compiler knows nothing: what follows from it is computed where it is needed, not ahead
/// of a loop and kept.
template <typename T>
__device__ __forceinline__ T computed_here(T value) {
  asm volatile("" : "+v"(value));
  return value;
}

/// The kernel's parameter that lies `kOffset` bytes from its first, as if it might have changed: what is read of it is
/// not held in scalar registers, which are short, from one use to the next.
template <std::size_t kOffset, typename T>
__device__ __forceinline__ const T& read_again(const T&) {
  auto* at = __builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(at));
  return *reinterpret_cast<const T*>((const unsigned char*)at + kOffset);  // NOLINT: a cast between address spaces
}

}  // namespace fmhax::portable::arch
