// How functions, default arguments and constants are declared for C and C++ alike.
#ifndef FMHAX_NVIDIA_DECLARE_H
#define FMHAX_NVIDIA_DECLARE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
#define FMHAX_HIP_CALL inline
#define FMHAX_HIP_DEFAULT(value) = value
#define FMHAX_HIP_CONSTANT(type, name, value) inline constexpr type name = value
#else
#define FMHAX_HIP_CALL static inline
#define FMHAX_HIP_DEFAULT(value)
#define FMHAX_HIP_CONSTANT(type, name, value) static const type name = value
#endif

#endif
