// Calls of the driver for what CUDA's runtime lacks; found through the runtime, so that nothing links with libcuda.
#ifndef FMHAX_NVIDIA_HIP_DRIVER_H
#define FMHAX_NVIDIA_HIP_DRIVER_H
#ifdef __cplusplus

#include <hip/nvidia/error.h>

#include <cuda.h>

namespace fmhax_hip {

/// A function of the driver, or null and why there is none.
template <class Function>
struct DriverFunction {
  Function* call = nullptr;
  cudaError_t error = cudaSuccess;
};

/// The driver's function as CUDA 12.0 declares it, for the legacy default stream.
template <class Function>
DriverFunction<Function> find_driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableLegacyStream, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableLegacyStream, &result);
#endif
  if (error != cudaSuccess) return {nullptr, error};
  if (result != cudaDriverEntryPointSuccess) return {nullptr, cudaErrorSymbolNotFound};
  return {reinterpret_cast<Function*>(found), cudaSuccess};
}

/// Calls the driver. The runtime makes a device current when it first needs to, the driver does not: a thread whose
/// first work on a device is this call gets its current device first.
template <class Function, class... Arguments>
cudaError_t call_driver(const DriverFunction<Function>& function, Arguments... arguments) {
  if (function.call == nullptr) return function.error;
  CUresult result = function.call(arguments...);
  if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED) {
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaSetDevice(device);
    if (error != cudaSuccess) return error;
    result = function.call(arguments...);
  }
  return static_cast<cudaError_t>(result);  // the values are the same
}

}  // namespace fmhax_hip

#endif
#endif
