/// @file The CPU provider: its rows for the registry.
#pragma once

#include <span>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::cpu {

/// For each instruction set (generic, avx2, avx512) three entries: direct (the keys fit one tile; no workspace),
/// persistent (deterministic batch mode), general (the rest). Higher instruction sets rank higher, and among one's
/// entries direct does; the environment variable FMHAX_CPU_ISA=generic|avx2|avx512 caps what is used.
std::span<const KernelEntry> entries();

}  // namespace fmhax::cpu
