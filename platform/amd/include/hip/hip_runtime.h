/// @file ROCm's header without a macro that, for host compilers, hides the attribute of its name from C++ libraries:
/// g++ 16's <format> says [[gnu::__noinline__]].
#pragma once

#include_next <hip/hip_runtime.h>

#ifndef __HIP__
#undef __noinline__
#endif
