/// @file The matrix instructions and the few others that differ between architectures: operands, sums, their layouts,
/// copies in two halves. The one place that chooses among them.
#pragma once

#if defined(__CUDACC__)
#include "arch/mma_nvidia.cuh"
#elif defined(__GFX12__)
#include "arch/mma_rdna.cuh"
#else
#include "arch/mma_cdna.cuh"
#endif
