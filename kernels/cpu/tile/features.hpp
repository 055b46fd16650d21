/// @file The features' arithmetic on vectors of logits.
#pragma once

#include "tile/exp.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

/// tanh(x), to a few units in the last place.
FMHAX_CPU_INLINE Float hyperbolic_tangent(Float x) {
  const Float size = x < 0.0F ? -x : x;
  const Float large = 1.0F - 2.0F / (exponential(2.0F * size) + 1.0F);
  // Near 0 the difference above loses digits; Lambert's continued fraction x/(1 + x^2/(3 + ... /9)) does not.
  const Float square = x * x;
  const Float small = size * (945.0F + square * (105.0F + square)) / (945.0F + square * (420.0F + 15.0F * square));
  const Float result = size < 0.6F ? small : large;
  return x < 0.0F ? -result : result;
}

/// Logits, and what dS is multiplied with on the way to the scores; 1 without soft-cap.
struct Logits {
  Float value;
  Float slope;
};

/// From scaled scores; `bias` is those of the same lanes, or null.
FMHAX_CPU_INLINE Logits logits_of(Float scaled, float softcap, const float* bias) {
  Logits logits{scaled, splat(1.0F)};
  if (softcap != 0.0F) {
    const Float t = hyperbolic_tangent(scaled * (1.0F / softcap));
    logits = {t * softcap, 1.0F - t * t};
  }
  if (bias != nullptr) logits.value += load(bias);
  return logits;
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
