/// @file The matrix instructions and the few others that differ between architectures: operands, sums, their layouts,
/// asynchronous copies. The one place that chooses among them.
#pragma once

#include "arch/mma_nvidia.cuh"
