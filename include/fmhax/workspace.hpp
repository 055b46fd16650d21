/// @file Sizes and contents of the workspace: host-only functions over plain data. They need neither HIP
/// nor any kernel; the library fmhax::workspace holds them alone. All are pure and thread-safe.
#pragma once

#include <cstdint>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/problem.hpp"
#include "fmhax/contract/workspace.hpp"

namespace fmhax {

/// Bytes of metadata at the head of the workspace; 0 for kernels that write dq directly.
/// Throws Error(invalid_argument) for a negative batch, Error(overflow).
std::int64_t workspace_host_size(const WorkspaceSpec& spec, std::int64_t batch);

/// The number of dq_acc splits of one sequence.
/// Batch mode, deterministic and persistent: with jobs_per_head = ceil(seqlen_k / kN0) and jobs_per_worker =
/// ceil(batch * nhead_k * jobs_per_head / workers): jobs_per_head / jobs_per_worker if that divides, 1 if
/// jobs_per_worker is a multiple of jobs_per_head, else 1 + ceil((jobs_per_head - 1) / jobs_per_worker).
std::int64_t split_count(const WorkspaceSpec& spec, const Problem& problem, std::int64_t seqlen_k);

/// Bytes of the workspace: exact in batch mode; in group mode enough for every set of lengths within the
/// problem's capacity. Throws Error(overflow).
std::int64_t workspace_size(const WorkspaceSpec& spec, const Problem& problem);

/// Bytes for these sequence starts (host arrays, int32[batch + 1]; ignored in batch mode). Throws
/// Error(invalid_argument) when the starts are null, decrease or exceed the capacity.
std::int64_t workspace_size(const WorkspaceSpec& spec, const Problem& problem, const std::int32_t* seqstart_q,
                            const std::int32_t* seqstart_k);

/// The least that workspace_size(spec, problem) can be made by bounding the splits: with max_splits = 1 where
/// spec.can_bound_splits, else that size itself. Throws Error(overflow).
std::int64_t least_workspace_size(const WorkspaceSpec& spec, const Problem& problem);

/// The largest max_splits with which workspace_size(spec, problem) is at most max_bytes; 0, no bound, where none is
/// needed. spec.max_splits itself is not read. Throws Error(unsupported), naming least_workspace_size(), where that is
/// more.
std::int64_t max_splits_within(const WorkspaceSpec& spec, const Problem& problem, std::int64_t max_bytes);

/// What the rectangular layout [batch, nhead_q, nsplits, max_seqlen_q, hdim_q] would take, for comparison.
std::int64_t rectangular_workspace_size(const WorkspaceSpec& spec, const Problem& problem);

struct PackResult {
  std::int64_t dq_acc_bytes = 0;
  CallStatus status{};
};

/// Writes the metadata, workspace_host_size(spec, batch) bytes, to `out` (host memory, 16-byte aligned).
/// On a bad start, on overflow, or when dq_acc would need more than `dq_acc_capacity` bytes (-1: no
/// limit), the metadata say kInvalidCall and the result's status says why. Bytes between the arrays are
/// set to zero, so equal lengths give equal bytes.
PackResult pack_workspace_host(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& host_lengths,
                               void* out, std::int64_t dq_acc_capacity = -1) noexcept;

/// The same from the two arrays of starts alone.
PackResult pack_workspace_host(const WorkspaceSpec& spec, const Problem& problem, const std::int32_t* seqstart_q,
                               const std::int32_t* seqstart_k, void* out) noexcept;

}  // namespace fmhax
