/// @file What the kernels touch, declared to the CPU runtime so that its schedule explorer can tell which of them need
/// an order (platform/host/include/hiphost/ranges.hpp).
#pragma once

#include <span>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::cpu {

/// Declares every kernel of the entries. The form of the result lets it initialise a static; it is always true.
bool declare_ranges(std::span<const KernelEntry> entries);

}  // namespace fmhax::cpu
