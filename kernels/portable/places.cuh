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

/// A tile of rows of one sequence.
struct RowTile {
  std::int64_t sequence = 0;
  std::int64_t begin = 0;  ///< within the sequence; may lie beyond its end
};

/// Tiles that rows are cut into, sequence by sequence; in group mode the most that a call can need, some of them empty.
FMHAX_HOST_DEVICE constexpr std::int64_t row_tile_count(const Problem& p, SequenceSide side, std::int64_t tile_rows) {
  const bool is_q = side == SequenceSide::q;
  if (p.is_group_mode) return p.batch == 0 ? 0 : (is_q ? p.total_q : p.total_k) / tile_rows + p.batch;
  return p.batch * (((is_q ? p.max_seqlen_q : p.max_seqlen_k) + tile_rows - 1) / tile_rows);
}

/// Tile `index` of row_tile_count(). In group mode sequence i's tiles begin at its first row / tile_rows + i, which
/// leaves room for one that is not full, whatever the other lengths are.
__device__ inline RowTile find_row_tile(const Problem& p, const SequenceLengths& lengths, SequenceSide side,
                                        std::int64_t tile_rows, std::int64_t index) {
  const bool is_q = side == SequenceSide::q;
  if (!p.is_group_mode) {
    const std::int64_t tiles = ((is_q ? p.max_seqlen_q : p.max_seqlen_k) + tile_rows - 1) / tile_rows;
    const std::int64_t sequence = index / tiles;
    return {sequence, (index - sequence * tiles) * tile_rows};
  }
  const std::int32_t* starts = is_q ? lengths.seqstart_q : lengths.seqstart_k;
  const std::int64_t total = is_q ? p.total_q : p.total_k;
  const auto first_tile = [&](std::int64_t i) { return clamp_index(starts[i], 0, total) / tile_rows + i; };
  std::int64_t low = 0;
  for (std::int64_t high = p.batch; high - low > 1;) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first_tile(middle) <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const std::int64_t tile = index - first_tile(low);
  return {low, (tile > 0 ? tile : 0) * tile_rows};
}

/// Whether any of the call's lengths is wrong; for all threads of a block together.
__device__ inline bool lengths_are_refused(const Problem& p, const SequenceLengths& lengths) {
  if (!p.is_group_mode && p.logical_lengths == LogicalLengths::none) return false;
  bool is_wrong = false;
  for (std::int64_t i = threadIdx.x; i < p.batch; i += blockDim.x) {
    is_wrong = is_wrong || check_sequence(p, lengths, SequenceSide::q, i).code != StatusCode::ok ||
               check_sequence(p, lengths, SequenceSide::k, i).code != StatusCode::ok;
  }
  return __syncthreads_or(is_wrong ? 1 : 0) != 0;
}

/// Packed rows of q or k that belong to sequences: [0, this); group mode.
__device__ inline std::int64_t packed_rows(const Problem& p, const SequenceLengths& lengths, SequenceSide side) {
  return p.batch > 0 ? tail_rows(p, lengths, side).begin : 0;
}

}  // namespace fmhax::portable
