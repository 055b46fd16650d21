#include "kernel_loading.hpp"

#include <hip/hip_runtime.h>

#include <mutex>

#include "hip_calls.hpp"

namespace fmhax::detail {
namespace {

void load(const KernelLaunch& launch) {
  hipFuncAttributes attributes{};
  FMHAX_HIP(hipFuncGetAttributes, &attributes, launch.function);
  const auto wanted = static_cast<int>(launch.shared_bytes);
  if (wanted <= attributes.maxDynamicSharedSizeBytes) return;
  // Plans may share a function; each only raises what it is allowed.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  FMHAX_HIP(hipFuncGetAttributes, &attributes, launch.function);
  if (wanted <= attributes.maxDynamicSharedSizeBytes) return;
  FMHAX_HIP(hipFuncSetAttribute, launch.function, hipFuncAttributeMaxDynamicSharedMemorySize, wanted);
}

}  // namespace

void load_kernels(const KernelEntry& entry, const DeviceTraits& traits, const KernelParams& params) {
  // A provider may have one function for tensors whose rows begin at vectors and another for those that don't.
  KernelParams unaligned = params;
  for (TensorRef* tensor : {&unaligned.q, &unaligned.k, &unaligned.v, &unaligned.o, &unaligned.dout, &unaligned.dq,
                            &unaligned.dk, &unaligned.dv}) {
    tensor->stride_seqlen = 1;
  }
  for (const KernelParams& given : {params, unaligned}) {
    for (const KernelRole role : kKernelRoles) {
      KernelLaunch launch;
      if (entry.form_launch(role, traits, given, launch) && launch.grid[0] > 0) load(launch);
    }
  }
}

}  // namespace fmhax::detail
