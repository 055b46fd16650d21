/// @file Element types that kernels of the current device take.
#pragma once

#include <vector>

#include "fmhax/contract/problem.hpp"

namespace fmhax::tool {

/// Those of which some kernel takes the plainest problem, on the device that is current at the first call.
const std::vector<DataType>& offered_types();
bool is_offered(DataType dtype);

}  // namespace fmhax::tool
