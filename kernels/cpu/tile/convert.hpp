/// @file Element types in memory, and rows of them to and from fp32.
#pragma once

#include "tile/vector.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace fmhax::cpu::FMHAX_CPU_ISA {

// The element types, by their bits.
struct Fp32 {
  float value;
};
struct Fp16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

template <int kWidth>
FMHAX_CPU_INLINE typename VectorTypes<kWidth>::Short load_bits(const void* from) {
  return *static_cast<const typename VectorTypes<kWidth>::UnalignedShort*>(from);
}

template <int kWidth>
FMHAX_CPU_INLINE void store_bits(void* to, typename VectorTypes<kWidth>::Short value) {
  *static_cast<typename VectorTypes<kWidth>::UnalignedShort*>(to) = value;
}

template <int kWidth>
FMHAX_CPU_INLINE typename VectorTypes<kWidth>::Float widen(const Fp32* from) {
  return load<kWidth>(&from->value);
}

template <int kWidth>
FMHAX_CPU_INLINE typename VectorTypes<kWidth>::Float widen(const Bf16* from) {
  using Bits = typename VectorTypes<kWidth>::Unsigned;
  const Bits bits = __builtin_convertvector(load_bits<kWidth>(from), Bits) << 16;
  return bits_of<typename VectorTypes<kWidth>::Float>(bits);
}

template <int kWidth>
FMHAX_CPU_INLINE typename VectorTypes<kWidth>::Float widen(const Fp16* from) {
  using Result = typename VectorTypes<kWidth>::Float;
#if defined(__AVX512F__)
  if constexpr (kWidth == 16) {
    return bits_of<Result>(_mm512_maskz_cvtph_ps(0xffff, bits_of<__m256i>(load_bits<16>(from))));
  } else
#endif
  {
#if defined(__F16C__)
    return bits_of<Result>(_mm256_cvtph_ps(bits_of<__m128i>(load_bits<8>(from))));
#else
    using Bits = typename VectorTypes<kWidth>::Unsigned;
    const Bits half = __builtin_convertvector(load_bits<kWidth>(from), Bits);
    const Bits magnitude = (half & 0x7fffU) << 13;
    // The multiplication moves the exponent and makes subnormal halves normal floats, exactly.
    const Bits finite = bits_of<Bits>(bits_of<Result>(magnitude) * 0x1p112F);
    // A quiet NaN, as the conversion instruction makes it.
    const Bits quiet = magnitude > 0x0f800000U ? Bits{} + 0x7fc00000U : Bits{} + 0x7f800000U;
    const Bits special = magnitude | quiet;
    const Bits value = magnitude >= 0x0f800000U ? special : finite;
    return bits_of<Result>(value | (half & 0x8000U) << 16);
#endif
  }
}

template <int kWidth>
FMHAX_CPU_INLINE void narrow(typename VectorTypes<kWidth>::Float value, Fp32* to) {
  store<kWidth>(&to->value, value);
}

template <int kWidth>
FMHAX_CPU_INLINE void narrow(typename VectorTypes<kWidth>::Float value, Bf16* to) {
  using Bits = typename VectorTypes<kWidth>::Unsigned;
  const Bits bits = bits_of<Bits>(value);
  const Bits rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const Bits quiet_nan = bits | 0x00400000U;
  const Bits result = ((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded) >> 16;
  store_bits<kWidth>(to, __builtin_convertvector(result, typename VectorTypes<kWidth>::Short));
}

template <int kWidth>
FMHAX_CPU_INLINE void narrow(typename VectorTypes<kWidth>::Float value, Fp16* to) {
#if defined(__AVX512F__)
  if constexpr (kWidth == 16) {
    // Zero-masked with every lane kept: the plain form makes g++ 12 warn of an uninitialised variable of its own.
    const __m256i half = _mm512_maskz_cvtps_ph(0xffff, bits_of<__m512>(value), _MM_FROUND_TO_NEAREST_INT);
    store_bits<16>(to, bits_of<VectorTypes<16>::Short>(half));
  } else
#endif
  {
#if defined(__F16C__)
    const __m128i half = _mm256_cvtps_ph(bits_of<__m256>(value), _MM_FROUND_TO_NEAREST_INT);
    store_bits<8>(to, bits_of<VectorTypes<8>::Short>(half));
#else
    using Result = typename VectorTypes<kWidth>::Float;
    using Bits = typename VectorTypes<kWidth>::Unsigned;
    const Bits bits = bits_of<Bits>(value);
    const Bits magnitude = bits & 0x7fffffffU;
    // Normal halves: move the exponent by 112, round to nearest even at bit 13.
    const Bits normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    // Subnormal halves: adding 0.5 aligns the last place of the sum with the last place of a half.
    const Bits subnormal = bits_of<Bits>(bits_of<Result>(magnitude) + 0.5F) - 0x3f000000U;
    const Bits finite = magnitude < 0x38800000U ? subnormal : normal;
    const Bits nan = ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
    const Bits special = magnitude > 0x7f800000U ? nan : Bits{} + 0x7c00U;
    const Bits result = (magnitude >= 0x477ff000U ? special : finite) | ((bits >> 16) & 0x8000U);
    store_bits<kWidth>(to, __builtin_convertvector(result, typename VectorTypes<kWidth>::Short));
#endif
  }
}

/// One row of `size` elements (a multiple of 8) to fp32, filled up with zeros to a whole vector.
template <class Element>
FMHAX_CPU_INLINE void widen_row(const Element* from, std::int64_t size, float* to) {
  along_row(
      size, [&](auto width, std::int64_t i) __attribute__((always_inline)) {
        constexpr int kWidth = decltype(width)::value;
        store<kWidth>(to + i, widen<kWidth>(from + i));
        if constexpr (kWidth < kLanes) store<kWidth>(to + i + kWidth, typename VectorTypes<kWidth>::Float{});
      });
}

/// One row of `size` floats (a multiple of 8), times `factor`, to the element type.
template <class Element>
FMHAX_CPU_INLINE void narrow_row(const float* from, std::int64_t size, float factor, Element* to) {
  along_row(
      size, [&](auto width, std::int64_t i) __attribute__((always_inline)) {
        constexpr int kWidth = decltype(width)::value;
        narrow<kWidth>(load<kWidth>(from + i) * factor, to + i);
      });
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
