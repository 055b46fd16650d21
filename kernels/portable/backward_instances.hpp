/// @file The backward kernels that this build has: one source file for each data type and pair of rounded head
/// dimensions, written by the build from the table in CMakeLists.txt.
#pragma once

#include "fmhax/contract/problem.hpp"

namespace fmhax::portable {

/// Kernel functions as hipLaunchKernel takes them, by [is_direct][has_features].
struct BackwardFunctions {
  const void* function[2][2];
};

template <DataType kDtype, int kHdimQ, int kHdimV>
BackwardFunctions backward_functions();

}  // namespace fmhax::portable
