/// @file The kernels that executors choose from.
#pragma once

#include <string>
#include <vector>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax {

/// Adds kernels from outside. The entry and what it points to must live until the process ends. Throws
/// Error(invalid_argument) when a function is missing, the version differs or the name is taken.
/// Thread-safe; executors made earlier are not affected.
void register_kernels(const KernelEntry& entry);

/// Every registered entry, the library's own first. Thread-safe.
std::vector<KernelEntry> registered_kernels();

/// One entry's verdict on a problem.
struct Candidate {
  KernelEntry entry;
  std::string unsupported_reason;  ///< empty when it can run
  std::int32_t rank = 0;
};

/// What a choice was made from and which entry won.
struct KernelChoice {
  std::vector<Candidate> candidates;
  std::size_t chosen = 0;
  const KernelEntry& entry() const { return candidates[chosen].entry; }
};

/// Picks the entry of the highest rank that can run the problem; with `name` given, that one or none; with a ceiling
/// for the workspace (0: none), one whose least_workspace_size() is not above it.
/// A pure function of its arguments. Throws Error(unsupported) listing each entry's reason.
KernelChoice choose_kernel(const std::vector<KernelEntry>& entries, const Problem& problem, const DeviceTraits& traits,
                           const std::string& name = {}, std::int64_t max_workspace_bytes = 0);

}  // namespace fmhax
