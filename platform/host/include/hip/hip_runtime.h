// <hip/hip_runtime.h> of the CPU runtime: the runtime API plus the language markers of HIP kernels, which mean
// nothing to a host compiler. How to write and launch a kernel here: <hiphost/kernel.hpp>.
#ifndef FMHAX_HOST_HIP_RUNTIME_H
#define FMHAX_HOST_HIP_RUNTIME_H

#include <hip/hip_runtime_api.h>

#ifndef __host__
#define __host__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

#endif
