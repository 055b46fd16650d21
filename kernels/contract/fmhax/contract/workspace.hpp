/// @file The workspace's layout: one definition for the host that fills it and the kernels that read it.
///
///   offset 0              int32 nsplits[N]                N = batch (deterministic group mode), else 1
///                         int64 dq_acc_offsets[batch + 1] group mode only; in elements
///                         int32 tile_starts[batch + 1]    the tile list: group mode, where the spec asks for it
///                         int32 tile_sequences[batch]
///   offset host_ws_size   dq_acc[...]                     sequences one after another; within one:
///                                                         [nhead_q, nsplits_i, seqlen_q_i, hdim_q]
///
/// Each array's size is rounded up to 16 bytes, that of all together to WorkspaceSpec::acc_alignment. seqlen_q_i is the
/// physical length.
///
/// The tile list says in which order the blocks of all sequences should run. tile_sequences[r] is the sequence at
/// place r, tile_starts[r] the jobs of all sequences at the places before it, tile_starts[batch] the jobs of all. A
/// sequence's jobs are its key tiles, ceil(seqlen_k_i / kN0), or in deterministic mode its splits. Up to
/// kMaxSortedBatch sequences stand by falling seqlen_q_i, which is the work of a key tile, equal ones by index;
/// more stand in their own order.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"

namespace fmhax {

/// What a provider's kernels need of the workspace. Plain data; may be filled by hand.
struct WorkspaceSpec {
  std::int64_t kN0 = 0;      ///< rows of one key tile
  std::int64_t workers = 0;  ///< persistent kernels: blocks launched
  std::int64_t acc_element_size = 4;
  std::int64_t acc_alignment = 16;  ///< of dq_acc within the workspace, in bytes: a multiple of 16
  bool is_group_mode = false;
  bool is_deterministic = false;
  bool is_persistent = false;
  bool writes_dq_directly = false;  ///< one block sees the whole row of K: no workspace at all
  bool needs_zero_dq_acc = false;
  bool has_tile_list = false;     ///< the metadata hold a tile list; without meaning in batch mode
  bool can_bound_splits = false;  ///< the kernels find their key tiles with split_range(), whatever max_splits is
  std::int64_t max_splits = 0;    ///< set by the plan, not by providers; deterministic, not persistent: the most splits
                                  ///< of one sequence; 0: no bound
};

/// nsplits[0] of a call whose lengths were refused on the way: every kernel then writes NaN gradients.
inline constexpr std::int32_t kInvalidCall = -1;

inline constexpr std::int64_t kWorkspaceAlignment = 16;

/// The most sequences that a tile list sorts; sorting more on the device would cost more than it brings.
inline constexpr std::int64_t kMaxSortedBatch = 1024;

FMHAX_HOST_DEVICE constexpr std::int64_t round_up_to_alignment(std::int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// Entries of nsplits[].
FMHAX_HOST_DEVICE constexpr std::int64_t nsplits_count(const WorkspaceSpec& spec, std::int64_t batch) {
  return spec.is_group_mode && spec.is_deterministic ? batch : 1;
}

/// Byte offset of dq_acc_offsets[] in the workspace (group mode only).
FMHAX_HOST_DEVICE constexpr std::int64_t dq_acc_offsets_position(const WorkspaceSpec& spec, std::int64_t batch) {
  return round_up_to_alignment(nsplits_count(spec, batch) * 4);
}

/// True when the metadata hold tile_starts[] and tile_sequences[].
FMHAX_HOST_DEVICE constexpr bool holds_tile_list(const WorkspaceSpec& spec) {
  return spec.has_tile_list && spec.is_group_mode && !spec.writes_dq_directly;
}

/// Byte offset of tile_starts[] (with a tile list only).
FMHAX_HOST_DEVICE constexpr std::int64_t tile_starts_position(const WorkspaceSpec& spec, std::int64_t batch) {
  return dq_acc_offsets_position(spec, batch) + (spec.is_group_mode ? round_up_to_alignment((batch + 1) * 8) : 0);
}

/// Byte offset of tile_sequences[] (with a tile list only).
FMHAX_HOST_DEVICE constexpr std::int64_t tile_sequences_position(const WorkspaceSpec& spec, std::int64_t batch) {
  return tile_starts_position(spec, batch) + round_up_to_alignment((batch + 1) * 4);
}

/// Bytes of the metadata's arrays. Does not check for overflow: workspace_host_size() does.
FMHAX_HOST_DEVICE constexpr std::int64_t metadata_end(const WorkspaceSpec& spec, std::int64_t batch) {
  if (!holds_tile_list(spec)) return tile_starts_position(spec, batch);
  return tile_sequences_position(spec, batch) + round_up_to_alignment(batch * 4);
}

/// Byte offset of dq_acc, which is the size of the metadata; zeros lie between them and their arrays' end.
FMHAX_HOST_DEVICE constexpr std::int64_t dq_acc_position(const WorkspaceSpec& spec, std::int64_t batch) {
  if (spec.writes_dq_directly) return 0;
  return (metadata_end(spec, batch) + spec.acc_alignment - 1) / spec.acc_alignment * spec.acc_alignment;
}

/// The divisions behind a deterministic persistent kernel: jobs (batch, key head, key tile) in this
/// order, dealt to the workers in contiguous ranges of jobs_per_worker. One job covers every query head
/// of its key head, so the jobs are counted over key heads.
struct PersistentSchedule {
  std::int64_t jobs_per_head = 0;
  std::int64_t jobs_per_worker = 0;
  std::int64_t jobs = 0;
};

FMHAX_HOST_DEVICE constexpr PersistentSchedule persistent_schedule(const WorkspaceSpec& spec, std::int64_t batch,
                                                                   std::int64_t nhead_k, std::int64_t seqlen_k) {
  PersistentSchedule s;
  s.jobs_per_head = (seqlen_k + spec.kN0 - 1) / spec.kN0;
  s.jobs = batch * nhead_k * s.jobs_per_head;
  s.jobs_per_worker = (s.jobs + spec.workers - 1) / spec.workers;
  return s;
}

/// Key tiles of one sequence.
FMHAX_HOST_DEVICE constexpr std::int64_t key_tiles(std::int64_t kN0, std::int64_t seqlen_k) {
  return seqlen_k / kN0 + (seqlen_k % kN0 != 0 ? 1 : 0);
}

/// Key tiles [begin, end) that one split sums, in this order.
struct SplitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The key tiles of split `split` of a sequence with `tiles` key tiles in nsplits = bounded_splits(tiles, ...) splits,
/// none of them empty.
FMHAX_HOST_DEVICE constexpr SplitRange split_range(std::int64_t tiles, std::int64_t nsplits, std::int64_t split) {
  const std::int64_t per_split = (tiles + nsplits - 1) / nsplits;
  const std::int64_t end = (split + 1) * per_split;
  return {split * per_split, end < tiles ? end : tiles};
}

/// Splits of a sequence with `tiles` key tiles: one each, or, with at most max_splits (0: no bound) of them, as many as
/// ceil(tiles / max_splits) tiles each give. split_range() finds the same tiles per split again: ceil(tiles / nsplits)
/// is not above them as nsplits * them >= tiles, and not below them as nsplits <= max_splits.
FMHAX_HOST_DEVICE constexpr std::int64_t bounded_splits(std::int64_t tiles, std::int64_t max_splits) {
  if (max_splits <= 0 || tiles <= max_splits) return tiles;
  const std::int64_t per_split = tiles / max_splits + (tiles % max_splits != 0 ? 1 : 0);
  return (tiles + per_split - 1) / per_split;
}

/// Splits of one sequence: fmhax::split_count() for a spec and a problem that it accepts.
FMHAX_HOST_DEVICE constexpr std::int64_t sequence_splits(const WorkspaceSpec& spec, const Problem& problem,
                                                         std::int64_t seqlen_k) {
  if (spec.writes_dq_directly) return 0;
  if (!spec.is_deterministic) return 1;
  const std::int64_t tiles = key_tiles(spec.kN0, seqlen_k);
  if (!spec.is_persistent) return bounded_splits(tiles, spec.max_splits);
  if (spec.is_group_mode || tiles == 0) return tiles;
  const PersistentSchedule s = persistent_schedule(spec, problem.batch, problem.nhead_k, seqlen_k);
  if (s.jobs_per_worker % s.jobs_per_head == 0) return 1;
  if (s.jobs_per_head % s.jobs_per_worker == 0) return s.jobs_per_head / s.jobs_per_worker;
  return 1 + (s.jobs_per_head - 1 + s.jobs_per_worker - 1) / s.jobs_per_worker;
}

/// Jobs of one sequence for one head: its splits in deterministic mode, else its key tiles.
FMHAX_HOST_DEVICE constexpr std::int64_t sequence_jobs(const WorkspaceSpec& spec, const Problem& problem,
                                                       std::int64_t seqlen_k) {
  return spec.is_deterministic && !spec.writes_dq_directly ? sequence_splits(spec, problem, seqlen_k)
                                                           : key_tiles(spec.kN0, seqlen_k);
}

/// The most jobs for one head that a call within the capacity can have; what a grid is made of when the lengths are
/// only known on the device. In group mode a sequence with c > 0 jobs has at least (c - 1) * kN0 + 1 keys, so p
/// sequences with keys have at most p + (total_k - p) / kN0 jobs, and none has more than the longest. One more sequence
/// adds a job and takes one at most, so p is as large as it can be. Some lengths need just as many.
FMHAX_HOST_DEVICE constexpr std::int64_t tile_list_bound(const WorkspaceSpec& spec, const Problem& problem) {
  if (!problem.is_group_mode) return problem.batch * sequence_jobs(spec, problem, problem.max_seqlen_k);
  const bool is_bounded = spec.is_deterministic && !spec.is_persistent && spec.max_splits > 0;
  const std::int64_t longest = key_tiles(spec.kN0, problem.max_seqlen_k);
  const std::int64_t most = is_bounded && spec.max_splits < longest ? spec.max_splits : longest;
  const std::int64_t sequences = problem.batch < problem.total_k ? problem.batch : problem.total_k;
  if (most == 0 || sequences == 0) return 0;
  const std::int64_t further = (problem.total_k - sequences) / spec.kN0;
  const bool fits = further / sequences < most - 1;
  return sequences + (fits ? further : sequences * (most - 1));
}

/// The place in the tile list of job number `job`, 0 <= job < tile_starts[batch]: tile_starts[place] <= job <
/// tile_starts[place + 1].
FMHAX_HOST_DEVICE constexpr std::int64_t find_tile(const std::int32_t* tile_starts, std::int64_t batch,
                                                   std::int64_t job) {
  std::int64_t first = 0;
  std::int64_t last = batch - 1;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (tile_starts[middle + 1] <= job) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace fmhax
