/// @file Launching the model's kernels on a GPU: the same grid for all of them, whose threads share out the rows or
/// elements that there are.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

#include "hip_objects.hpp"

namespace fmhax::train {

inline constexpr std::uint32_t kBlocks = 256;
inline constexpr std::uint32_t kThreads = 256;

/// Enqueues one of the kernels in kernels.hpp.
template <class Params>
void launch(void (*kernel)(Params), const Params& params, hipStream_t stream) {
  Params copy = params;
  void* arguments[] = {&copy};
  check(hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(kBlocks), dim3(kThreads), arguments, 0, stream),
        "hipLaunchKernel");
}

}  // namespace fmhax::train
