/// @file The attention gradients of a training step against fp64.
#pragma once

#include "training_step.hpp"

namespace fmhax::train {

/// Errors ||x - ref|| / ||ref||, the largest over the layers.
struct AttentionError {
  double gradient = 0;  ///< dq, dk and dv, against fp64 from the same q, k, v, o, lse and d_o
  double output = 0;    ///< o, against fp64 from the same q, k and v
};

/// Reads back what attention received and returned in the latest step, and computes it again in fp64. The gradients are
/// computed from the o and lse that the forward kernel left, as the backward pass is a function of those; the forward
/// kernel has its own number. Call it when the stream is empty; it blocks.
/// Throws std::runtime_error when the call's sequence starts were refused on the device or a result is not finite.
AttentionError attention_error(const TrainingStep& step);

}  // namespace fmhax::train
