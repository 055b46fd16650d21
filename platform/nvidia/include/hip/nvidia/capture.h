// Stream capture.
#ifndef FMHAX_NVIDIA_HIP_CAPTURE_H
#define FMHAX_NVIDIA_HIP_CAPTURE_H

#include <hip/nvidia/graph.h>
#include <hip/nvidia/stream.h>

typedef enum cudaStreamCaptureMode hipStreamCaptureMode;
FMHAX_HIP_CONSTANT(hipStreamCaptureMode, hipStreamCaptureModeGlobal, cudaStreamCaptureModeGlobal);
FMHAX_HIP_CONSTANT(hipStreamCaptureMode, hipStreamCaptureModeThreadLocal, cudaStreamCaptureModeThreadLocal);
FMHAX_HIP_CONSTANT(hipStreamCaptureMode, hipStreamCaptureModeRelaxed, cudaStreamCaptureModeRelaxed);

typedef enum cudaStreamCaptureStatus hipStreamCaptureStatus;
FMHAX_HIP_CONSTANT(hipStreamCaptureStatus, hipStreamCaptureStatusNone, cudaStreamCaptureStatusNone);
FMHAX_HIP_CONSTANT(hipStreamCaptureStatus, hipStreamCaptureStatusActive, cudaStreamCaptureStatusActive);
FMHAX_HIP_CONSTANT(hipStreamCaptureStatus, hipStreamCaptureStatusInvalidated, cudaStreamCaptureStatusInvalidated);

FMHAX_HIP_CONSTANT(unsigned int, hipStreamAddCaptureDependencies, cudaStreamAddCaptureDependencies);
FMHAX_HIP_CONSTANT(unsigned int, hipStreamSetCaptureDependencies, cudaStreamSetCaptureDependencies);

FMHAX_HIP_CALL hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return cudaStreamBeginCapture(stream, mode);
}
FMHAX_HIP_CALL hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* pGraph) {
  return cudaStreamEndCapture(stream, pGraph);
}
FMHAX_HIP_CALL hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* pCaptureStatus) {
  return cudaStreamIsCapturing(stream, pCaptureStatus);
}
FMHAX_HIP_CALL hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return cudaThreadExchangeStreamCaptureMode(mode);
}

FMHAX_HIP_CALL hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* captureStatus_out,
                                                     unsigned long long* id_out FMHAX_HIP_DEFAULT(0),
                                                     hipGraph_t* graph_out FMHAX_HIP_DEFAULT(0),
                                                     const hipGraphNode_t** dependencies_out FMHAX_HIP_DEFAULT(0),
                                                     size_t* numDependencies_out FMHAX_HIP_DEFAULT(0)) {
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                                  numDependencies_out);
#else
  return cudaStreamGetCaptureInfo_v2(stream, captureStatus_out, id_out, graph_out, dependencies_out,
                                     numDependencies_out);
#endif
}
FMHAX_HIP_CALL hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t* dependencies,
                                                             size_t numDependencies,
                                                             unsigned int flags FMHAX_HIP_DEFAULT(0)) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, NULL, numDependencies, flags);
#else
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, numDependencies, flags);
#endif
}

#endif
