// Error codes, and the calls that name them or read a thread's last one.
#ifndef FMHAX_NVIDIA_HIP_ERROR_H
#define FMHAX_NVIDIA_HIP_ERROR_H

#include <hip/nvidia/declare.h>

typedef cudaError_t hipError_t;

// Every error that both have, by HIP's name and by CUDA's.
#define FMHAX_HIP_ERRORS(entry)                                                     \
  entry(hipSuccess, cudaSuccess);                                                   \
  entry(hipErrorInvalidValue, cudaErrorInvalidValue);                               \
  entry(hipErrorOutOfMemory, cudaErrorMemoryAllocation);                            \
  entry(hipErrorNotInitialized, cudaErrorInitializationError);                      \
  entry(hipErrorDeinitialized, cudaErrorCudartUnloading);                           \
  entry(hipErrorProfilerDisabled, cudaErrorProfilerDisabled);                       \
  entry(hipErrorInvalidConfiguration, cudaErrorInvalidConfiguration);               \
  entry(hipErrorInvalidPitchValue, cudaErrorInvalidPitchValue);                     \
  entry(hipErrorInvalidSymbol, cudaErrorInvalidSymbol);                             \
  entry(hipErrorInvalidDevicePointer, cudaErrorInvalidDevicePointer);               \
  entry(hipErrorInvalidMemcpyDirection, cudaErrorInvalidMemcpyDirection);           \
  entry(hipErrorInsufficientDriver, cudaErrorInsufficientDriver);                   \
  entry(hipErrorMissingConfiguration, cudaErrorMissingConfiguration);               \
  entry(hipErrorPriorLaunchFailure, cudaErrorPriorLaunchFailure);                   \
  entry(hipErrorInvalidDeviceFunction, cudaErrorInvalidDeviceFunction);             \
  entry(hipErrorNoDevice, cudaErrorNoDevice);                                       \
  entry(hipErrorInvalidDevice, cudaErrorInvalidDevice);                             \
  entry(hipErrorInvalidImage, cudaErrorInvalidKernelImage);                         \
  entry(hipErrorInvalidContext, cudaErrorDeviceUninitialized);                      \
  entry(hipErrorMapFailed, cudaErrorMapBufferObjectFailed);                         \
  entry(hipErrorUnmapFailed, cudaErrorUnmapBufferObjectFailed);                     \
  entry(hipErrorArrayIsMapped, cudaErrorArrayIsMapped);                             \
  entry(hipErrorAlreadyMapped, cudaErrorAlreadyMapped);                             \
  entry(hipErrorNoBinaryForGpu, cudaErrorNoKernelImageForDevice);                   \
  entry(hipErrorAlreadyAcquired, cudaErrorAlreadyAcquired);                         \
  entry(hipErrorNotMapped, cudaErrorNotMapped);                                     \
  entry(hipErrorNotMappedAsArray, cudaErrorNotMappedAsArray);                       \
  entry(hipErrorNotMappedAsPointer, cudaErrorNotMappedAsPointer);                   \
  entry(hipErrorECCNotCorrectable, cudaErrorECCUncorrectable);                      \
  entry(hipErrorUnsupportedLimit, cudaErrorUnsupportedLimit);                       \
  entry(hipErrorContextAlreadyInUse, cudaErrorDeviceAlreadyInUse);                  \
  entry(hipErrorPeerAccessUnsupported, cudaErrorPeerAccessUnsupported);             \
  entry(hipErrorInvalidKernelFile, cudaErrorInvalidPtx);                            \
  entry(hipErrorInvalidGraphicsContext, cudaErrorInvalidGraphicsContext);           \
  entry(hipErrorInvalidSource, cudaErrorInvalidSource);                             \
  entry(hipErrorFileNotFound, cudaErrorFileNotFound);                               \
  entry(hipErrorSharedObjectSymbolNotFound, cudaErrorSharedObjectSymbolNotFound);   \
  entry(hipErrorSharedObjectInitFailed, cudaErrorSharedObjectInitFailed);           \
  entry(hipErrorOperatingSystem, cudaErrorOperatingSystem);                         \
  entry(hipErrorInvalidHandle, cudaErrorInvalidResourceHandle);                     \
  entry(hipErrorIllegalState, cudaErrorIllegalState);                               \
  entry(hipErrorNotFound, cudaErrorSymbolNotFound);                                 \
  entry(hipErrorNotReady, cudaErrorNotReady);                                       \
  entry(hipErrorIllegalAddress, cudaErrorIllegalAddress);                           \
  entry(hipErrorLaunchOutOfResources, cudaErrorLaunchOutOfResources);               \
  entry(hipErrorLaunchTimeOut, cudaErrorLaunchTimeout);                             \
  entry(hipErrorPeerAccessAlreadyEnabled, cudaErrorPeerAccessAlreadyEnabled);       \
  entry(hipErrorPeerAccessNotEnabled, cudaErrorPeerAccessNotEnabled);               \
  entry(hipErrorSetOnActiveProcess, cudaErrorSetOnActiveProcess);                   \
  entry(hipErrorContextIsDestroyed, cudaErrorContextIsDestroyed);                   \
  entry(hipErrorAssert, cudaErrorAssert);                                           \
  entry(hipErrorHostMemoryAlreadyRegistered, cudaErrorHostMemoryAlreadyRegistered); \
  entry(hipErrorHostMemoryNotRegistered, cudaErrorHostMemoryNotRegistered);         \
  entry(hipErrorLaunchFailure, cudaErrorLaunchFailure);                             \
  entry(hipErrorCooperativeLaunchTooLarge, cudaErrorCooperativeLaunchTooLarge);     \
  entry(hipErrorNotSupported, cudaErrorNotSupported);                               \
  entry(hipErrorStreamCaptureUnsupported, cudaErrorStreamCaptureUnsupported);       \
  entry(hipErrorStreamCaptureInvalidated, cudaErrorStreamCaptureInvalidated);       \
  entry(hipErrorStreamCaptureMerge, cudaErrorStreamCaptureMerge);                   \
  entry(hipErrorStreamCaptureUnmatched, cudaErrorStreamCaptureUnmatched);           \
  entry(hipErrorStreamCaptureUnjoined, cudaErrorStreamCaptureUnjoined);             \
  entry(hipErrorStreamCaptureIsolation, cudaErrorStreamCaptureIsolation);           \
  entry(hipErrorStreamCaptureImplicit, cudaErrorStreamCaptureImplicit);             \
  entry(hipErrorCapturedEvent, cudaErrorCapturedEvent);                             \
  entry(hipErrorStreamCaptureWrongThread, cudaErrorStreamCaptureWrongThread);       \
  entry(hipErrorGraphExecUpdateFailure, cudaErrorGraphExecUpdateFailure);           \
  entry(hipErrorInvalidChannelDescriptor, cudaErrorInvalidChannelDescriptor);       \
  entry(hipErrorInvalidTexture, cudaErrorInvalidTexture);                           \
  entry(hipErrorUnknown, cudaErrorUnknown)

#define FMHAX_HIP_ERROR_CONSTANT(hip_name, cuda_name) FMHAX_HIP_CONSTANT(hipError_t, hip_name, cuda_name)
FMHAX_HIP_ERRORS(FMHAX_HIP_ERROR_CONSTANT);
#undef FMHAX_HIP_ERROR_CONSTANT

FMHAX_HIP_CALL const char* hipGetErrorName(hipError_t hip_error) {
#define FMHAX_HIP_ERROR_NAME(hip_name, cuda_name) \
  case cuda_name:                                 \
    return #hip_name
  switch (hip_error) {
    FMHAX_HIP_ERRORS(FMHAX_HIP_ERROR_NAME);
    default:
      return cudaGetErrorName(hip_error);
  }
#undef FMHAX_HIP_ERROR_NAME
}
#undef FMHAX_HIP_ERRORS

FMHAX_HIP_CALL const char* hipGetErrorString(hipError_t hipError) { return cudaGetErrorString(hipError); }

// The last error of this thread; hipGetLastError also clears it.
FMHAX_HIP_CALL hipError_t hipGetLastError(void) { return cudaGetLastError(); }
FMHAX_HIP_CALL hipError_t hipPeekAtLastError(void) { return cudaPeekAtLastError(); }

#endif
