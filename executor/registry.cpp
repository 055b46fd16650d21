#include "fmhax/registry.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "fmhax/error.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/workspace.hpp"

/// Defined where the library's own kernels are linked in (fmhax::fmhax); absent in a host-only program.
extern "C" __attribute__((weak)) const fmhax::KernelEntry* fmhax_builtin_kernels(std::size_t* count);

namespace fmhax {
namespace {

struct Registry {
  Registry() {
    if (fmhax_builtin_kernels == nullptr) return;
    std::size_t count = 0;
    const KernelEntry* first = fmhax_builtin_kernels(&count);
    entries.assign(first, first + count);
  }
  std::mutex mutex;
  std::vector<KernelEntry> entries;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

/// Empty when the entry's workspace can be made small enough.
std::string too_large_a_workspace(const KernelEntry& entry, const Problem& problem, const DeviceTraits& traits,
                                  std::int64_t max_bytes) {
  if (max_bytes == 0) return {};
  const std::int64_t least = least_workspace_size(entry.workspace_spec(problem, traits), problem);
  if (least <= max_bytes) return {};
  return fmt::format("its workspace takes at least {} bytes, but max_workspace_bytes is {}", least, max_bytes);
}

void check_entry(const KernelEntry& entry) {
  const char* name = entry.name != nullptr ? entry.name : "";
  if (*name == '\0') throw Error(ErrorCode::invalid_argument, "KernelEntry.name is empty");
  if (entry.version != KernelEntry::kVersion) {
    throw Error(ErrorCode::invalid_argument, fmt::format("KernelEntry '{}': version is {}, this library takes {}", name,
                                                         entry.version, KernelEntry::kVersion));
  }
  if (entry.unsupported_reason == nullptr || entry.rank == nullptr || entry.workspace_spec == nullptr ||
      entry.form_launch == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("KernelEntry '{}': all four functions are needed", name));
  }
}

}  // namespace

void register_kernels(const KernelEntry& entry) {
  check_entry(entry);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (const KernelEntry& other : r.entries) {
    if (std::strcmp(other.name, entry.name) == 0) {
      throw Error(ErrorCode::invalid_argument, fmt::format("KernelEntry.name '{}' is already registered", entry.name));
    }
  }
  r.entries.push_back(entry);
}

std::vector<KernelEntry> registered_kernels() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.entries;
}

KernelChoice choose_kernel(const std::vector<KernelEntry>& entries, const Problem& problem, const DeviceTraits& traits,
                           const std::string& name, std::int64_t max_workspace_bytes) {
  KernelChoice choice;
  std::string reasons;
  bool found = false;
  for (const KernelEntry& entry : entries) {
    Candidate candidate{entry, {}, 0};
    const char* reason = entry.unsupported_reason(problem, traits);
    if (reason != nullptr) {
      candidate.unsupported_reason = reason;
    } else if (!name.empty() && name != entry.name) {
      candidate.unsupported_reason = fmt::format("not the requested kernel '{}'", name);
    } else {
      candidate.rank = entry.rank(problem, traits);
      candidate.unsupported_reason = too_large_a_workspace(entry, problem, traits, max_workspace_bytes);
    }
    const bool usable = candidate.unsupported_reason.empty();
    if (!usable) reasons += fmt::format("\n  {}: {}", entry.name, candidate.unsupported_reason);
    choice.candidates.push_back(std::move(candidate));
    if (usable && (!found || choice.candidates.back().rank > choice.candidates[choice.chosen].rank)) {
      choice.chosen = choice.candidates.size() - 1;
      found = true;
    }
  }
  if (!found) {
    throw Error(ErrorCode::unsupported,
                fmt::format("no registered kernel runs this problem on '{}': {}{}", traits.arch, to_string(problem),
                            reasons.empty() ? "\n  no kernel is registered" : reasons));
  }
  return choice;
}

}  // namespace fmhax
