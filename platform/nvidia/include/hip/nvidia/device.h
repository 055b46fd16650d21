// Devices.
#ifndef FMHAX_NVIDIA_HIP_DEVICE_H
#define FMHAX_NVIDIA_HIP_DEVICE_H

#include <hip/nvidia/error.h>

#include <stdio.h>
#include <string.h>

FMHAX_HIP_CONSTANT(int, hipInvalidDeviceId, cudaInvalidDeviceId);

typedef struct hipDeviceProp_t {
  char name[256];
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int major;
  int minor;
  int multiProcessorCount;
  char gcnArchName[256];  // "sm_" and the compute capability
} hipDeviceProp_t;

FMHAX_HIP_CALL hipError_t hipGetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
FMHAX_HIP_CALL hipError_t hipGetDevice(int* deviceId) { return cudaGetDevice(deviceId); }
FMHAX_HIP_CALL hipError_t hipSetDevice(int deviceId) { return cudaSetDevice(deviceId); }
FMHAX_HIP_CALL hipError_t hipDeviceSynchronize(void) { return cudaDeviceSynchronize(); }

FMHAX_HIP_CALL hipError_t hipGetDeviceProperties(hipDeviceProp_t* prop, int deviceId) {
  struct cudaDeviceProp found;
  const cudaError_t error = cudaGetDeviceProperties(&found, deviceId);
  if (error != cudaSuccess) return error;
  memset(prop, 0, sizeof(*prop));
  memcpy(prop->name, found.name, sizeof(prop->name));
  prop->totalGlobalMem = found.totalGlobalMem;
  prop->sharedMemPerBlock = found.sharedMemPerBlock;
  prop->warpSize = found.warpSize;
  prop->maxThreadsPerBlock = found.maxThreadsPerBlock;
  prop->major = found.major;
  prop->minor = found.minor;
  prop->multiProcessorCount = found.multiProcessorCount;
  (void)snprintf(prop->gcnArchName, sizeof(prop->gcnArchName), "sm_%d%d", found.major, found.minor);
  return cudaSuccess;
}

typedef enum cudaDeviceAttr hipDeviceAttribute_t;
FMHAX_HIP_CONSTANT(hipDeviceAttribute_t, hipDeviceAttributeSharedMemPerBlockOptin,
                   cudaDevAttrMaxSharedMemoryPerBlockOptin);

FMHAX_HIP_CALL hipError_t hipDeviceGetAttribute(int* pi, hipDeviceAttribute_t attr, int deviceId) {
  return cudaDeviceGetAttribute(pi, attr, deviceId);
}

#endif
