/// @file The one macro that host and device code share.
#pragma once

#if defined(__HIPCC__) || defined(__CUDACC__)
#define FMHAX_HOST_DEVICE __host__ __device__
#else
#define FMHAX_HOST_DEVICE
#endif
