/// @file What one call's staging holds, and the host function that packs the metadata in it.
#pragma once

#include <cstddef>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/workspace.hpp"

namespace fmhax::detail {

/// Byte positions in a call's pinned staging. Arrays that the problem does not have take no room.
struct StagingLayout {
  std::size_t seqstart_q = 0;
  std::size_t seqstart_k = 0;
  std::size_t logical_q = 0;  ///< seqlen_q or cu_seqlen_q
  std::size_t logical_k = 0;
  std::size_t metadata = 0;
  std::size_t bytes = 0;
  std::size_t seqstart_bytes = 0;  ///< of one array of starts
  std::size_t logical_bytes = 0;   ///< of one array of logical lengths
  std::size_t metadata_bytes = 0;
};

StagingLayout staging_layout(const WorkspaceSpec& spec, const Problem& problem);

/// At the head of the staging: all that packing needs, so that it refers to nothing else.
struct PackJob {
  Problem problem;
  WorkspaceSpec spec;
  SequenceLengths lengths;  ///< in the staging
  void* metadata;           ///< in the staging
  std::int64_t dq_acc_capacity;
  CallStatus* status;  ///< may be null
};

/// Writes the job into `staging`. dq_acc_capacity is in bytes.
PackJob* make_pack_job(void* staging, const StagingLayout& layout, const WorkspaceSpec& spec, const Problem& problem,
                       std::int64_t dq_acc_capacity, CallStatus* status);

/// The host function: runs once per call and once per replay; user_data is the PackJob.
void run_pack_job(void* user_data) noexcept;

}  // namespace fmhax::detail
