#include "launch.hpp"

#include <hip/hip_runtime.h>

#include <algorithm>
#include <array>

#include "verification/device_buffer.hpp"

namespace fmhax::portable::test {

using verification::check_hip;

DeviceTraits small_device() {
  DeviceTraits traits;
  hipDeviceProp_t properties{};
  check_hip(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
  std::copy_n(properties.gcnArchName, sizeof(traits.arch) - 1, traits.arch);
  traits.multiprocessors = 1;
  traits.shared_memory_per_block = 99 * 1024;  // what every GPU from sm_80 on can give
  return traits;
}

void play(const KernelLaunch& launch) {
  if (launch.grid[0] == 0) return;
  KernelLaunch copy = launch;
  std::array<void*, KernelLaunch::kMaxArguments> arguments{};
  for (std::uint32_t i = 0; i < copy.argument_count; ++i) arguments[i] = copy.arguments + copy.argument_offset[i];
  if (copy.shared_bytes > 0) {
    check_hip(hipFuncSetAttribute(copy.function, hipFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(copy.shared_bytes)),
              "hipFuncSetAttribute");
  }
  check_hip(
      hipLaunchKernel(copy.function, dim3(copy.grid[0], copy.grid[1], copy.grid[2]),
                      dim3(copy.block[0], copy.block[1], copy.block[2]), arguments.data(), copy.shared_bytes, nullptr),
      "hipLaunchKernel");
  check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

}  // namespace fmhax::portable::test
