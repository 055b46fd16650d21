// Streams, events, host functions and kernel launches.
#ifndef FMHAX_NVIDIA_HIP_STREAM_H
#define FMHAX_NVIDIA_HIP_STREAM_H

#include <hip/nvidia/driver.h>
#include <hip/nvidia/error.h>

typedef cudaStream_t hipStream_t;
typedef cudaEvent_t hipEvent_t;
typedef cudaHostFn_t hipHostFn_t;

FMHAX_HIP_CONSTANT(unsigned int, hipStreamDefault, cudaStreamDefault);
FMHAX_HIP_CONSTANT(unsigned int, hipStreamNonBlocking, cudaStreamNonBlocking);
FMHAX_HIP_CONSTANT(unsigned int, hipEventDefault, cudaEventDefault);
FMHAX_HIP_CONSTANT(unsigned int, hipEventDisableTiming, cudaEventDisableTiming);

FMHAX_HIP_CALL hipError_t hipStreamCreate(hipStream_t* stream) { return cudaStreamCreate(stream); }
FMHAX_HIP_CALL hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithFlags(stream, flags);
}
FMHAX_HIP_CALL hipError_t hipStreamDestroy(hipStream_t stream) { return cudaStreamDestroy(stream); }
FMHAX_HIP_CALL hipError_t hipStreamQuery(hipStream_t stream) { return cudaStreamQuery(stream); }
FMHAX_HIP_CALL hipError_t hipStreamSynchronize(hipStream_t stream) { return cudaStreamSynchronize(stream); }
FMHAX_HIP_CALL hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                                             unsigned int flags FMHAX_HIP_DEFAULT(0)) {
  return cudaStreamWaitEvent(stream, event, flags);
}

#ifdef __cplusplus
// By way of the driver: cudaStreamGetDevice refuses a capturing stream, and invalidates its capture.
inline hipError_t hipStreamGetDevice(hipStream_t stream, int* device) {
  using namespace fmhax_hip;
  static const auto context_of = find_driver_function<decltype(cuStreamGetCtx)>("cuStreamGetCtx");
  static const auto push = find_driver_function<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent");
  static const auto pop = find_driver_function<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent");
  static const auto device_of = find_driver_function<decltype(cuCtxGetDevice)>("cuCtxGetDevice");
  // The runtime's contexts are their devices' for as long as the process lives, so a thread asks about each but once.
  thread_local CUcontext known_context = nullptr;
  thread_local int known_device = 0;
  CUcontext context = nullptr;
  cudaError_t error = call_driver(context_of, stream, &context);
  if (error == cudaSuccess && context == known_context && context != nullptr) {
    *device = known_device;
    return cudaSuccess;
  }
  if (error == cudaSuccess) error = call_driver(push, context);
  if (error != cudaSuccess) return error;
  error = call_driver(device_of, device);
  CUcontext popped_context = nullptr;
  const cudaError_t popped = call_driver(pop, &popped_context);
  if (error == cudaSuccess) error = popped;
  if (error != cudaSuccess) return error;
  known_context = context;
  known_device = *device;
  return cudaSuccess;
}
#endif

FMHAX_HIP_CALL hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return cudaStreamGetPriority(stream, priority);
}

FMHAX_HIP_CALL hipError_t hipEventCreate(hipEvent_t* event) { return cudaEventCreate(event); }
FMHAX_HIP_CALL hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return cudaEventCreateWithFlags(event, flags);
}
FMHAX_HIP_CALL hipError_t hipEventDestroy(hipEvent_t event) { return cudaEventDestroy(event); }
FMHAX_HIP_CALL hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream FMHAX_HIP_DEFAULT(0)) {
  return cudaEventRecord(event, stream);
}
FMHAX_HIP_CALL hipError_t hipEventQuery(hipEvent_t event) { return cudaEventQuery(event); }
FMHAX_HIP_CALL hipError_t hipEventSynchronize(hipEvent_t event) { return cudaEventSynchronize(event); }
FMHAX_HIP_CALL hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  return cudaEventElapsedTime(ms, start, stop);
}

FMHAX_HIP_CALL hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void* userData) {
  return cudaLaunchHostFunc(stream, fn, userData);
}

// function_address is that of a __global__ function.
FMHAX_HIP_CALL hipError_t hipLaunchKernel(const void* function_address, dim3 numBlocks, dim3 dimBlocks, void** args,
                                          size_t sharedMemBytes FMHAX_HIP_DEFAULT(0),
                                          hipStream_t stream FMHAX_HIP_DEFAULT(0)) {
  return cudaLaunchKernel(function_address, numBlocks, dimBlocks, args, sharedMemBytes, stream);
}

typedef struct cudaFuncAttributes hipFuncAttributes;
typedef enum cudaFuncAttribute hipFuncAttribute;
FMHAX_HIP_CONSTANT(hipFuncAttribute, hipFuncAttributeMaxDynamicSharedMemorySize,
                   cudaFuncAttributeMaxDynamicSharedMemorySize);

// Loads the function on the current device where that is done lazily.
FMHAX_HIP_CALL hipError_t hipFuncGetAttributes(hipFuncAttributes* attr, const void* func) {
  return cudaFuncGetAttributes(attr, func);
}
FMHAX_HIP_CALL hipError_t hipFuncSetAttribute(const void* func, hipFuncAttribute attr, int value) {
  return cudaFuncSetAttribute(func, attr, value);
}

#endif
