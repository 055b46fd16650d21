// Allocation, what a pointer points to, and copies.
#ifndef FMHAX_NVIDIA_HIP_MEMORY_H
#define FMHAX_NVIDIA_HIP_MEMORY_H

#include <hip/nvidia/error.h>

typedef enum cudaMemcpyKind hipMemcpyKind;
FMHAX_HIP_CONSTANT(hipMemcpyKind, hipMemcpyHostToHost, cudaMemcpyHostToHost);
FMHAX_HIP_CONSTANT(hipMemcpyKind, hipMemcpyHostToDevice, cudaMemcpyHostToDevice);
FMHAX_HIP_CONSTANT(hipMemcpyKind, hipMemcpyDeviceToHost, cudaMemcpyDeviceToHost);
FMHAX_HIP_CONSTANT(hipMemcpyKind, hipMemcpyDeviceToDevice, cudaMemcpyDeviceToDevice);
FMHAX_HIP_CONSTANT(hipMemcpyKind, hipMemcpyDefault, cudaMemcpyDefault);

typedef enum cudaMemoryType hipMemoryType;
FMHAX_HIP_CONSTANT(hipMemoryType, hipMemoryTypeUnregistered, cudaMemoryTypeUnregistered);
FMHAX_HIP_CONSTANT(hipMemoryType, hipMemoryTypeHost, cudaMemoryTypeHost);
FMHAX_HIP_CONSTANT(hipMemoryType, hipMemoryTypeDevice, cudaMemoryTypeDevice);
FMHAX_HIP_CONSTANT(hipMemoryType, hipMemoryTypeManaged, cudaMemoryTypeManaged);

FMHAX_HIP_CONSTANT(unsigned int, hipHostMallocDefault, cudaHostAllocDefault);
FMHAX_HIP_CONSTANT(unsigned int, hipHostMallocPortable, cudaHostAllocPortable);
FMHAX_HIP_CONSTANT(unsigned int, hipHostMallocMapped, cudaHostAllocMapped);
FMHAX_HIP_CONSTANT(unsigned int, hipHostRegisterDefault, cudaHostRegisterDefault);
FMHAX_HIP_CONSTANT(unsigned int, hipMemAttachGlobal, cudaMemAttachGlobal);

typedef void* hipDeviceptr_t;

typedef struct hipPointerAttribute_t {
  hipMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
  int isManaged;
  unsigned allocationFlags;
} hipPointerAttribute_t;

FMHAX_HIP_CALL hipError_t hipMalloc(void** ptr, size_t size) { return cudaMalloc(ptr, size); }
FMHAX_HIP_CALL hipError_t hipFree(void* ptr) { return cudaFree(ptr); }
FMHAX_HIP_CALL hipError_t hipMallocAsync(void** dev_ptr, size_t size, cudaStream_t stream) {
  return cudaMallocAsync(dev_ptr, size, stream);
}
FMHAX_HIP_CALL hipError_t hipFreeAsync(void* dev_ptr, cudaStream_t stream) { return cudaFreeAsync(dev_ptr, stream); }
FMHAX_HIP_CALL hipError_t hipMallocManaged(void** dev_ptr, size_t size,
                                           unsigned int flags FMHAX_HIP_DEFAULT(hipMemAttachGlobal)) {
  return cudaMallocManaged(dev_ptr, size, flags);
}
FMHAX_HIP_CALL hipError_t hipHostMalloc(void** ptr, size_t size, unsigned int flags) {
  return cudaHostAlloc(ptr, size, flags);
}
FMHAX_HIP_CALL hipError_t hipHostFree(void* ptr) { return cudaFreeHost(ptr); }
FMHAX_HIP_CALL hipError_t hipHostRegister(void* hostPtr, size_t sizeBytes, unsigned int flags) {
  return cudaHostRegister(hostPtr, sizeBytes, flags);
}
FMHAX_HIP_CALL hipError_t hipHostUnregister(void* hostPtr) { return cudaHostUnregister(hostPtr); }

// Memory that CUDA doesn't know is no error: its type is hipMemoryTypeUnregistered.
FMHAX_HIP_CALL hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
  struct cudaPointerAttributes found;
  const cudaError_t error = cudaPointerGetAttributes(&found, ptr);
  if (error != cudaSuccess) return error;
  attributes->type = found.type;
  attributes->device = found.device;
  attributes->devicePointer = found.devicePointer;
  attributes->hostPointer = found.hostPointer;
  attributes->isManaged = found.type == cudaMemoryTypeManaged;
  attributes->allocationFlags = 0;
  return cudaSuccess;
}

FMHAX_HIP_CALL hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind) {
  return cudaMemcpy(dst, src, sizeBytes, kind);
}
FMHAX_HIP_CALL hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind,
                                         cudaStream_t stream FMHAX_HIP_DEFAULT(0)) {
  return cudaMemcpyAsync(dst, src, sizeBytes, kind, stream);
}

#ifdef __cplusplus
template <class T>
inline hipError_t hipMalloc(T** ptr, size_t size) {
  return hipMalloc(reinterpret_cast<void**>(ptr), size);
}
template <class T>
inline hipError_t hipMallocAsync(T** dev_ptr, size_t size, cudaStream_t stream) {
  return hipMallocAsync(reinterpret_cast<void**>(dev_ptr), size, stream);
}
template <class T>
inline hipError_t hipMallocManaged(T** dev_ptr, size_t size, unsigned int flags = hipMemAttachGlobal) {
  return hipMallocManaged(reinterpret_cast<void**>(dev_ptr), size, flags);
}
template <class T>
inline hipError_t hipHostMalloc(T** ptr, size_t size, unsigned int flags = hipHostMallocDefault) {
  return hipHostMalloc(reinterpret_cast<void**>(ptr), size, flags);
}
#endif

#endif
