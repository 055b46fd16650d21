/// @file What the kernels of every platform compute for one element, or once a step.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "fmhax/contract/platform_macros.hpp"
#include "kernels.hpp"

namespace fmhax::train {

inline constexpr float kNormEpsilon = 1e-6F;
inline constexpr float kRootTwoOverPi = 0.7978845608F;  ///< of GELU's tanh form
inline constexpr float kGeluCubic = 0.044715F;

/// Bits of a bf16 number as float, exactly.
FMHAX_HOST_DEVICE inline float widen_bf16(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  memcpy(&value, &word, sizeof value);
  return value;
}

/// The bf16 number nearest to a float, ties to even; NaN stays NaN.
FMHAX_HOST_DEVICE inline std::uint16_t narrow_bf16(float value) {
  std::uint32_t word = 0;
  memcpy(&word, &value, sizeof word);
  if ((word & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
  return static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
}

/// The learning rate of a step counted from 1: a linear rise, then a half cosine down to its final fraction.
FMHAX_HOST_DEVICE inline float learning_rate_of(const AdamWSettings& settings, std::int64_t step) {
  if (step <= settings.warmup_steps) {
    return settings.learning_rate * static_cast<float>(step) / static_cast<float>(settings.warmup_steps);
  }
  const std::int64_t left = settings.total_steps - settings.warmup_steps;
  const double progress = static_cast<double>(step - settings.warmup_steps) / static_cast<double>(left > 1 ? left : 1);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * (progress < 1.0 ? progress : 1.0)));
  const double fraction = settings.final_fraction;
  return settings.learning_rate * static_cast<float>(fraction + (1.0 - fraction) * cosine);
}

/// begin_update from the sums of the gradients' squares and of the rows' losses.
FMHAX_HOST_DEVICE inline void begin_update_from(const BeginUpdate& p, double squares, double loss) {
  OptimizerState& state = *p.state;
  ++state.step;
  const auto step = static_cast<double>(state.step);
  state.learning_rate = learning_rate_of(p.settings, state.step);
  state.first_correction = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(p.settings.beta1), step)));
  state.second_correction = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(p.settings.beta2), step)));
  state.gradient_norm = static_cast<float>(std::sqrt(squares));
  state.gradient_scale = state.gradient_norm > p.settings.clip_norm ? p.settings.clip_norm / state.gradient_norm : 1.0F;

  p.record->step = state.step;
  p.record->loss = static_cast<float>(loss / *p.target_count);
  p.record->learning_rate = state.learning_rate;
  p.record->gradient_norm = state.gradient_norm;
  p.record->target_count = *p.target_count;
}

}  // namespace fmhax::train
