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
  for (const KernelRole role : kKernelRoles) {
    KernelLaunch launch;
    if (entry.form_launch(role, traits, params, launch) && launch.grid[0] > 0) load(launch);
  }
}

}  // namespace fmhax::detail
