// The HIP 6.4 runtime API as far as the CPU runtime implements it. Names, enum values, struct layouts and symbols are
// ROCm's, so that an object compiled against ROCm's headers links with this library; usable from C and C++.
#ifndef FMHAX_HOST_HIP_RUNTIME_API_H
#define FMHAX_HOST_HIP_RUNTIME_API_H

#include <hip/hip_version.h>

#include <stddef.h>
#include <stdint.h>

// Tells a program that the HIP runtime it sees is the one on CPU threads.
#define HIP_PLATFORM_FMHAX_HOST 1

#include <hip/driver_types.h>
#include <hip/host/device.h>
#include <hip/host/error.h>
#include <hip/host/graph.h>
#include <hip/host/graph_nodes.h>
#include <hip/host/graph_types.h>
#include <hip/host/memory.h>
#include <hip/host/stream.h>

#endif
