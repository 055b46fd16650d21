/// @file A provider from outside of fmhax: attention kernels of its own, written plainly, and their description.
#pragma once

#include "fmhax/contract/kernel_entry.hpp"

namespace plain {

/// Keys of one tile: each tile has its own split of dq_acc.
inline constexpr std::int64_t kKeysPerTile = 32;

/// "plain-fp32-32": fp32, every mask, MHA, GQA and MQA, batch and group mode, logical lengths; always deterministic.
/// The entry lives as long as the process.
const fmhax::KernelEntry& provider();

}  // namespace plain
