// Sets.
#ifndef FMHAX_NVIDIA_HIP_MEMSET_H
#define FMHAX_NVIDIA_HIP_MEMSET_H

#include <hip/nvidia/driver.h>
#include <hip/nvidia/memory.h>

FMHAX_HIP_CALL hipError_t hipMemset(void* dst, int value, size_t sizeBytes) {
  return cudaMemset(dst, value, sizeBytes);
}
FMHAX_HIP_CALL hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes,
                                         cudaStream_t stream FMHAX_HIP_DEFAULT(0)) {
  return cudaMemsetAsync(dst, value, sizeBytes, stream);
}

#ifdef __cplusplus
inline hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, cudaStream_t stream = nullptr) {
  static const auto set = fmhax_hip::find_driver_function<decltype(cuMemsetD32Async)>("cuMemsetD32Async");
  return fmhax_hip::call_driver(set, reinterpret_cast<CUdeviceptr>(dst), static_cast<unsigned int>(value), count,
                                stream);
}
#endif

#endif
