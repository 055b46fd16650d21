/// @file Launching the model's kernels on platform/host: one function call for each block of the grid that the
/// parameters ask for.
#pragma once

#include <hip/hip_runtime.h>
#include <hiphost/kernel.hpp>

#include "hip_objects.hpp"

namespace fmhax::train {

/// Enqueues one of the kernels in kernels.hpp.
template <class Params>
void launch(void (*kernel)(Params), const Params& params, hipStream_t stream) {
  Params copy = params;
  void* arguments[] = {&copy};
  check(hipLaunchKernel(hiphost::kernel(kernel), params.grid(), dim3{1, 1, 1}, arguments, 0, stream),
        "hipLaunchKernel");
}

}  // namespace fmhax::train
