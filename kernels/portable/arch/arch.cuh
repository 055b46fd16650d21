/// @file The one place where the portable kernels choose the architecture that they are compiled for.
#pragma once

#include <hip/hip_runtime.h>

#if defined(__CUDACC__)
#include "arch/nvidia.cuh"
#elif defined(__HIP__)
#include "arch/amd.cuh"
#else
#error "kernels/portable has no trait for this compiler's GPUs"
#endif
