/// @file The attention gradients of a training step against fp64.
#pragma once

#include "training_step.hpp"

namespace fmhax::train {

/// Reads back what attention received and returned in the latest step, recomputes dq, dk and dv of every layer in fp64
/// and returns the largest error ||g - ref|| / ||ref||. Call it when the stream is empty; it blocks.
/// Throws std::runtime_error when the call's sequence starts were refused on the device.
double attention_gradient_error(const TrainingStep& step);

}  // namespace fmhax::train
