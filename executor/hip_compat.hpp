/// @file What differs between the HIP versions that the executor builds against (5.2 to 7), in one place.
#pragma once

#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstddef>

#define FMHAX_HIP_AT_LEAST(major, minor) \
  (HIP_VERSION_MAJOR > (major) || (HIP_VERSION_MAJOR == (major) && HIP_VERSION_MINOR >= (minor)))

/// User objects, which tie a resource's life to a graph, came with HIP 5.3.
#define FMHAX_HAS_USER_OBJECTS FMHAX_HIP_AT_LEAST(5, 3)

namespace fmhax::detail {

/// Memory that kernels read at the speed of the device. HIP 6 renamed the field and gave managed memory a kind of its
/// own.
inline bool is_device_memory(const hipPointerAttribute_t& attributes) {
#if FMHAX_HIP_AT_LEAST(6, 0)
  return attributes.type == hipMemoryTypeDevice || attributes.type == hipMemoryTypeManaged;
#else
  return attributes.memoryType == hipMemoryTypeDevice || attributes.isManaged != 0;
#endif
}

/// Memory that belongs to no single device.
inline bool is_managed_memory(const hipPointerAttribute_t& attributes) { return attributes.isManaged != 0; }

/// A launch of an executable graph waits for the one before, also on another stream: CUDA says so of cudaGraphLaunch.
/// Launches that were made before an executable is changed run as it was: CUDA says so of
/// cudaGraphExecKernelNodeSetParams.
#ifdef __HIP_PLATFORM_NVIDIA__
inline constexpr bool kOrdersLaunchesOfAnExecutable = true;
inline constexpr bool kChangesLeaveLaunchesAlone = true;
#else
inline constexpr bool kOrdersLaunchesOfAnExecutable = false;
inline constexpr bool kChangesLeaveLaunchesAlone = false;
#endif

/// Bytes of shared memory that a function may be allowed on a device; not every HIP tells it apart from what every
/// function may use.
inline std::size_t most_shared_memory(const hipDeviceProp_t& properties, int device) {
  int allowed = 0;
  if (hipDeviceGetAttribute(&allowed, hipDeviceAttributeSharedMemPerBlockOptin, device) != hipSuccess) {
    (void)hipGetLastError();
    return properties.sharedMemPerBlock;
  }
  return std::max(properties.sharedMemPerBlock, static_cast<std::size_t>(allowed));
}

/// The device of a stream; before HIP 5.6 there is no question for it, and `current` is taken on trust.
inline hipError_t stream_device(hipStream_t stream, int current, int* device) {
#if FMHAX_HIP_AT_LEAST(5, 6)
  (void)current;
  return hipStreamGetDevice(stream, device);
#else
  (void)stream;
  *device = current;
  return hipSuccess;
#endif
}

}  // namespace fmhax::detail
