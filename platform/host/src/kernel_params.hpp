// Limits of a launch, and the check of its parameters.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "work.hpp"

namespace hiphost {

inline constexpr std::uint32_t kMostGridX = 2147483647;
inline constexpr std::uint32_t kMostGridYZ = 65535;
inline constexpr std::uint32_t kMostBlockThreads = 1024;
inline constexpr std::size_t kMostSharedBytes = 256 * 1024;

// Checks everything and copies the arguments. hipErrorInvalidDeviceFunction if the function isn't registered.
hipError_t make_kernel_work(const void* function, dim3 grid, dim3 block, void** args, void** extra,
                            std::size_t shared_bytes, KernelWork& out);

}  // namespace hiphost
