/// @file The exponential of a vector.
#pragma once

#include "tile/vector.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

/// exp(x) to about one unit in the last place. Below -87.3 (where a float becomes subnormal), and for
/// -inf, exactly 0; above 88.4 +inf; NaN stays NaN.
FMHAX_CPU_INLINE Float exponential(Float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // nine bits: its product with any |n| <= 128 is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  const Float lowest = splat(-87.336F);
  const Float highest = splat(88.8F);
  const Float t = x > highest ? highest : x;
  const Float shifted = t * kLog2E + kShift;
  const Float n = shifted - kShift;
  Float r = t - n * kLn2High;
  r = r - n * kLn2Low;
  // 1 + r + r^2 q(r), q of degree 4 by Remez exchange for the relative error on [-ln2/2, ln2/2]: 3.1e-9.
  Float p = splat(0.00138144673F);
  p = p * r + 0.00836878084F;
  p = p * r + 0.0416683927F;
  p = p * r + 0.166665196F;
  p = p * r + 0.49999994F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const Int power = (bits_of<Int>(shifted) + 127) << 23;
  const Float result = p * bits_of<Float>(power);
  return x < lowest ? Float{} : result;
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
