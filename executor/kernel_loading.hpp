/// @file Making an entry's kernel functions ready on a device while planning, so that no call has to.
#pragma once

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::detail {

/// Loads the function of every role's launch on the current device, for graphs too, and allows it the dynamic shared
/// memory that the launch asks for. `params` are of the plan, with null for all that calls bring. Throws Error(hip).
/// Thread-safe.
void load_kernels(const KernelEntry& entry, const DeviceTraits& traits, const KernelParams& params);

}  // namespace fmhax::detail
