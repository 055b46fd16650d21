// What hip-tests expects of a HIP compiler and its headers, on top of platform/host: included before everything else.
// Kernels are plain functions that run once per thread; none of the listed cases needs a barrier or shared memory.
#pragma once

#include <hip/hip_runtime.h>
#include <hiphost/kernel.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hip/hip_vector_types.h"
#include "hip_tests_unsupported.hpp"

// Variables, not macros: gridDim and blockDim are also fields of hipKernelNodeParams.
inline thread_local const hiphost::Index3& threadIdx = hiphost::kernel_position.thread;
inline thread_local const hiphost::Index3& blockIdx = hiphost::kernel_position.block;
inline thread_local const hiphost::Index3& blockDim = hiphost::kernel_position.block_size;
inline thread_local const hiphost::Index3& gridDim = hiphost::kernel_position.grid_size;
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

#define __constant__
#define HIP_KERNEL_NAME(...) __VA_ARGS__

// Kernels wait by looking at this clock; it ticks as hipDeviceAttributeWallClockRate says, in kHz.
inline long long wall_clock64() {
  static const long long ticks_per_ms = [] {
    int rate = 0;
    return hipDeviceGetAttribute(&rate, hipDeviceAttributeWallClockRate, 0) == hipSuccess && rate > 0 ? rate : 1000;
  }();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<long long>(std::chrono::duration<double, std::milli>(now).count() * double(ticks_per_ms));
}
inline long long clock64() { return wall_clock64(); }
inline void __builtin_amdgcn_s_sleep(int) {}

template <class T>
T atomicAdd(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}

// Names a kernel whose template arguments follow from a launch's arguments.
#define HIP_TESTS_DEDUCED(kernel) [](auto... argument) { kernel(argument...); }

template <class... P, class... A>
void hipLaunchKernelGGL(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, hipStream_t stream,
                        A&&... arguments) {
  (void)hiphost::launch(kernel, grid, block, shared, stream, std::forward<A>(arguments)...);
}

template <class F, class... A, class = std::enable_if_t<std::is_class_v<F>>>
void hipLaunchKernelGGL(F kernel, dim3 grid, dim3 block, std::size_t shared, hipStream_t stream, A&&... arguments) {
  void (*function)(std::decay_t<A>...) = kernel;
  hipLaunchKernelGGL(function, grid, block, shared, stream, std::forward<A>(arguments)...);
}
