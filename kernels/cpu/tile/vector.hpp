/// @file Vectors of the instruction set that this translation unit is compiled for. Everything under tile/
/// is compiled once for each instruction set, in a namespace named after it, and calls no inline function
/// from outside this folder: the linker must never be able to hand such code to a lesser processor.
#pragma once

#include <cstdint>

#ifndef FMHAX_CPU_ISA
#define FMHAX_CPU_ISA generic
#endif

#define FMHAX_CPU_INLINE inline __attribute__((always_inline))

// For functions that touch nothing but the scratch memory of their own thread: ThreadSanitizer would find nothing
// there and take ten times as long.
#define FMHAX_CPU_THREAD_PRIVATE __attribute__((no_sanitize("thread")))

namespace fmhax::cpu::FMHAX_CPU_ISA {

// kLanes floats to a vector; a micro-kernel holds kMicroRows x kMicroColumns of them in registers, next to
// kMicroColumns operands and one broadcast value: 29 of 32, 15 of 16, 11 of 16 (products need some without FMA).
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kMicroRows = 6;
inline constexpr int kMicroColumns = 4;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
inline constexpr int kMicroRows = 6;
inline constexpr int kMicroColumns = 2;
#else
inline constexpr int kLanes = 4;
inline constexpr int kMicroRows = 4;
inline constexpr int kMicroColumns = 2;
#endif

template <int kWidth>
struct VectorTypes {
  typedef float Float __attribute__((vector_size(kWidth * 4)));
  typedef std::int32_t Int __attribute__((vector_size(kWidth * 4)));
  typedef std::uint32_t Unsigned __attribute__((vector_size(kWidth * 4)));
  typedef std::uint16_t Short __attribute__((vector_size(kWidth * 2)));
  typedef float UnalignedFloat __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
  typedef std::uint16_t UnalignedShort __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
};

using Float = VectorTypes<kLanes>::Float;
using Int = VectorTypes<kLanes>::Int;
using Unsigned = VectorTypes<kLanes>::Unsigned;

template <int kWidth = kLanes>
FMHAX_CPU_INLINE typename VectorTypes<kWidth>::Float load(const float* from) {
  return *reinterpret_cast<const typename VectorTypes<kWidth>::UnalignedFloat*>(from);
}

template <int kWidth = kLanes>
FMHAX_CPU_INLINE void store(float* to, typename VectorTypes<kWidth>::Float value) {
  *reinterpret_cast<typename VectorTypes<kWidth>::UnalignedFloat*>(to) = value;
}

// x - 0 is x for every x, so that this is a broadcast and nothing else (0 + x would have to turn -0 into 0).
FMHAX_CPU_INLINE Float splat(float value) { return value - Float{}; }

template <class To, class From>
FMHAX_CPU_INLINE To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &value, sizeof(to));
  return to;
}

/// 0, 1, 2, …
FMHAX_CPU_INLINE Int lane_numbers() {
  Int lanes{};
  for (int i = 0; i < kLanes; ++i) lanes[i] = i;
  return lanes;
}

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

/// Calls f with Constant<0> … Constant<kCount - 1>: loops that must be gone before registers are assigned.
template <int kCount, class F>
FMHAX_CPU_INLINE void unrolled(F&& f) {
  if constexpr (kCount > 0) {
    unrolled<kCount - 1>(f);
    f(Constant<kCount - 1>{});
  }
}

/// Calls f(Constant<width>, i) along `size` floats, a multiple of 8: whole vectors, then a half one if need be.
template <class F>
FMHAX_CPU_INLINE void along_row(std::int64_t size, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) f(Constant<kLanes>{}, i);
  if constexpr (kLanes > 8) {
    if (i < size) f(Constant<8>{}, i);
  }
}

FMHAX_CPU_INLINE std::int64_t minimum(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

FMHAX_CPU_INLINE std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
