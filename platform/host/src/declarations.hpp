// What tasks touch, from their parameters and from what was declared, and what reports call them.
#pragma once

#include <hiphost/ranges.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "work.hpp"

namespace hiphost {

class MemoryMap;

struct Access {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_write = false;
};

// Appends what the work touches. The work must be about to run.
void collect_accesses(const Work& work, const MemoryMap& memory, std::vector<Access>& out);

bool may_reorder_blocks(const KernelWork& work);

// E.g. "pack (host in a graph)".
std::string display_name(const Work& work, bool in_graph);

}  // namespace hiphost
