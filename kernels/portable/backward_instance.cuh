/// @file What a generated instance file instantiates.
#pragma once

#include "backward_instances.hpp"
#include "backward_kernel.cuh"

namespace fmhax::portable {

template <DataType kDtype, int kHdimQ, int kHdimV, bool kIsDirect, bool kHasFeatures>
struct BackwardInstance {
  static constexpr BackwardConfig kConfig = backward_config(kTileSet, kDtype, kHdimQ, kHdimV, kIsDirect, kHasFeatures);
};

template <class Instance>
const void* function_of() {
  static_assert(sizeof(typename BackwardKernel<Instance>::Shared) <= Instance::kConfig.shared_bytes());
  return reinterpret_cast<const void*>(backward_kernel<Instance>);
}

template <DataType kDtype, int kHdimQ, int kHdimV>
BackwardFunctions instantiate() {
  return {{{function_of<BackwardInstance<kDtype, kHdimQ, kHdimV, false, false>>(),
            function_of<BackwardInstance<kDtype, kHdimQ, kHdimV, false, true>>()},
           {function_of<BackwardInstance<kDtype, kHdimQ, kHdimV, true, false>>(),
            function_of<BackwardInstance<kDtype, kHdimQ, kHdimV, true, true>>()}}};
}

}  // namespace fmhax::portable
