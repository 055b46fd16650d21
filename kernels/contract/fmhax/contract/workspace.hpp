/// @file The workspace's layout: one definition for the host that fills it and the kernels that read it.
///
///   offset 0              int32 nsplits[N]                N = batch (deterministic group mode), else 1
///                         int64 dq_acc_offsets[batch + 1] group mode only; in elements
///   offset host_ws_size   dq_acc[...]                     sequences one after another; within one:
///                                                         [nhead_q, nsplits_i, seqlen_q_i, hdim_q]
///
/// Each array's size is rounded up to 16 bytes. seqlen_q_i is the physical length.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"

namespace fmhax {

/// What a provider's kernels need of the workspace. Plain data; may be filled by hand.
struct WorkspaceSpec {
  std::int64_t kN0 = 0;      ///< rows of one key tile
  std::int64_t workers = 0;  ///< persistent kernels: blocks launched
  std::int64_t acc_element_size = 4;
  bool is_group_mode = false;
  bool is_deterministic = false;
  bool is_persistent = false;
  bool writes_dq_directly = false;  ///< one block sees the whole row of K: no workspace at all
  bool needs_zero_dq_acc = false;
};

/// nsplits[0] of a call whose lengths were refused on the way: every kernel then writes NaN gradients.
inline constexpr std::int32_t kInvalidCall = -1;

inline constexpr std::int64_t kWorkspaceAlignment = 16;

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

/// Byte offset of dq_acc, which is the size of the metadata. Does not check for overflow:
/// workspace_host_size() does.
FMHAX_HOST_DEVICE constexpr std::int64_t dq_acc_position(const WorkspaceSpec& spec, std::int64_t batch) {
  if (spec.writes_dq_directly) return 0;
  return dq_acc_offsets_position(spec, batch) + (spec.is_group_mode ? round_up_to_alignment((batch + 1) * 8) : 0);
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

/// Splits of one sequence: fmhax::split_count() for a spec and a problem that it accepts.
FMHAX_HOST_DEVICE constexpr std::int64_t sequence_splits(const WorkspaceSpec& spec, const Problem& problem,
                                                         std::int64_t seqlen_k) {
  if (spec.writes_dq_directly) return 0;
  if (!spec.is_deterministic) return 1;
  const std::int64_t tiles = seqlen_k / spec.kN0 + (seqlen_k % spec.kN0 != 0 ? 1 : 0);
  if (spec.is_group_mode || !spec.is_persistent || tiles == 0) return tiles;
  const PersistentSchedule s = persistent_schedule(spec, problem.batch, problem.nhead_k, seqlen_k);
  if (s.jobs_per_worker % s.jobs_per_head == 0) return 1;
  if (s.jobs_per_head % s.jobs_per_worker == 0) return s.jobs_per_head / s.jobs_per_worker;
  return 1 + (s.jobs_per_head - 1 + s.jobs_per_worker - 1) / s.jobs_per_worker;
}

}  // namespace fmhax
