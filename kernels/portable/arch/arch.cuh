/// @file The one place where the portable kernels choose the architecture that they are compiled for, and what all
/// architectures have in common.
#pragma once

#include <hip/hip_runtime.h>

#if defined(__CUDACC__)
#include "arch/nvidia.cuh"
#elif defined(__HIP__)
#include "arch/amd.cuh"
#else
#error "kernels/portable has no trait for this compiler's GPUs"
#endif

namespace fmhax::portable::arch {

/// Memory that the host reads while the kernel runs: stores before the fence are seen before those after it.
template <typename T>
__device__ __forceinline__ void store_for_host(T* to, T value) {
  *static_cast<volatile T*>(to) = value;
}
template <typename T>
__device__ __forceinline__ T load_for_host(const T* from) {
  return *static_cast<const volatile T*>(from);
}
__device__ __forceinline__ void fence_for_host() { __threadfence_system(); }

}  // namespace fmhax::portable::arch
