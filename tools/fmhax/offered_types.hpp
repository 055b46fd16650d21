/// @file Element types and head dimensions that kernels of the current device take.
#pragma once

#include <cstdint>
#include <vector>

#include "fmhax/contract/problem.hpp"

namespace fmhax::tool {

/// Those of which some kernel takes the plainest problem, on the device that is current at the first call.
const std::vector<DataType>& offered_types();
bool is_offered(DataType dtype);
/// The largest head dimension of which the same is true.
std::int64_t largest_offered_hdim();

}  // namespace fmhax::tool
