// The part of the HIP 6.4 runtime API that this project uses, as inline calls of the CUDA runtime 12 or 13; usable
// from C and C++.
//
// Handles are CUDA's handles, errors and enums are CUDA's under HIP's names (their values are the same), parameter
// structs whose fields have the same names are CUDA's too. So HIP and CUDA calls can be mixed on one stream.
//
// What differs, and where it is made up for:
//   error.h    hipGetErrorName gives HIP's names; errors that HIP has no name for keep CUDA's
//   device.h   hipDeviceProp_t holds only what is used; gcnArchName comes from the compute capability ("sm_90")
//   memory.h   hipPointerAttribute_t has HIP's fields; allocationFlags is always 0
//   memset.h   CUDA's runtime sets bytes only: 32-bit sets call the driver, from C++ alone, and leave
//              hipGetLastError as it is
//   stream.h   the device of a stream, which may be capturing, comes from the driver, in C++ alone
//   capture.h, graph.h   CUDA 13 gave calls that see edges one more parameter, for edge data. HIP has none; where a
//              graph has edges with data, the questions return CUDA's cudaErrorLossyQuery
//   graph.h    hipGraphInstantiate writes no log
// What HIP runtimes themselves decide (when destructors of user objects run, which parameters of nodes in an
// executable may change) is as CUDA has it.
#ifndef FMHAX_NVIDIA_HIP_RUNTIME_API_H
#define FMHAX_NVIDIA_HIP_RUNTIME_API_H

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12000
#error "platform/nvidia needs CUDA 12 or newer"
#endif

#include <hip/hip_version.h>

// HIP's own name for this platform.
#ifndef __HIP_PLATFORM_NVIDIA__
#define __HIP_PLATFORM_NVIDIA__ 1
#endif

#include <hip/nvidia/capture.h>
#include <hip/nvidia/device.h>
#include <hip/nvidia/error.h>
#include <hip/nvidia/graph.h>
#include <hip/nvidia/graph_nodes.h>
#include <hip/nvidia/memory.h>
#include <hip/nvidia/memset.h>
#include <hip/nvidia/stream.h>

#endif
