/// @file Which sequence a packed row belongs to.
#pragma once

#include "arch/arch.cuh"
#include "fmhax/contract/sequence.hpp"

namespace fmhax::portable {

/// The last of `batch` > 0 sequences that begins at or before `row`; some sequence where the starts are in disorder.
__device__ inline std::int64_t find_sequence(const std::int32_t* starts, std::int64_t batch, std::int64_t row) {
  std::int64_t low = 0;
  for (std::int64_t high = batch; high - low > 1;) {
    const std::int64_t middle = low + (high - low) / 2;
    if (starts[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The same by all lanes of a warp together, whose arguments agree: two steps for a thousand sequences.
__device__ inline std::int64_t find_sequence_by_warp(const std::int32_t* starts, std::int64_t batch, std::int64_t row) {
  const std::int64_t lane = threadIdx.x % arch::kWarpSize;
  std::int64_t low = 0;
  for (std::int64_t count = batch; count > 1;) {
    const std::int64_t step = (count + arch::kWarpSize - 1) / arch::kWarpSize;
    const bool begins_before = lane * step < count && starts[low + lane * step] <= row;
    const int hits = __popcll(static_cast<unsigned long long>(arch::ballot(begins_before)));
    const std::int64_t skipped = (hits > 1 ? hits - 1 : 0) * step;
    low += skipped;
    count = count - skipped < step ? count - skipped : step;
  }
  return low;
}

/// Packed rows of q or k that belong to sequences: [0, this); group mode.
__device__ inline std::int64_t packed_rows(const Problem& p, const SequenceLengths& lengths, SequenceSide side) {
  return p.batch > 0 ? tail_rows(p, lengths, side).begin : 0;
}

}  // namespace fmhax::portable
