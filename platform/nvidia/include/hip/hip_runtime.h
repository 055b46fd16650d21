// <hip/hip_runtime.h> on NVIDIA: the runtime API and, for a compiler of kernels, CUDA's language.
#ifndef FMHAX_NVIDIA_HIP_RUNTIME_H
#define FMHAX_NVIDIA_HIP_RUNTIME_H

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

#include <hip/hip_runtime_api.h>

#endif
