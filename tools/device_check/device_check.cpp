#include "device_check/device_check.h"

#include <hip/hip_runtime.h>

#include <cstdio>

bool require_device(const char* program) {
  int count = 0;
  hipError_t error = hipGetDeviceCount(&count);
  if (error == hipSuccess && count > 0) return true;
  if (error == hipSuccess) error = hipErrorNoDevice;
  std::fprintf(
      stderr,
      "%s: hipGetDeviceCount: %s (%s). Check that a GPU is installed, that its driver is loaded and that you may "
      "open its device files (AMD: /dev/kfd and /dev/dri, groups video and render); to run on the CPU, build "
      "with FMHAX_PLATFORM=host.\n",
      program, hipGetErrorName(error), hipGetErrorString(error));
  return false;
}
