/// @file The portable provider: its rows for the registry.
#pragma once

#include <span>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::portable {

std::span<const KernelEntry> entries();

}  // namespace fmhax::portable
