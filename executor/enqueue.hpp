/// @file One call on a stream: eager, or recorded where the stream is capturing.
#pragma once

#include <hip/hip_runtime.h>

#include "executor_state.hpp"

namespace fmhax::detail {

/// Whether a stream is capturing, and into what. Throws when the capture is already invalid.
struct Capture {
  bool active = false;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* dependencies = nullptr;
  std::size_t dependency_count = 0;
};
Capture capture_of(hipStream_t stream);

/// Throws when the stream, on which a graph is to be launched, is capturing.
void check_not_capturing(hipStream_t stream);

/// Checks, takes staging and workspace, builds the node list and plays or records it.
void enqueue_call(const ExecutorState& state, const CallArguments& arguments, CallPart part, hipStream_t stream);

/// The preparation from lengths in host memory; checks and packs before it returns.
void prepare_from_host(const ExecutorState& state, const CallArguments& arguments, const SequenceLengths& host_lengths,
                       hipStream_t stream);

/// The staging that a call or graph needs: with the pack job written when a host function packs, empty when nothing has
/// to be kept alive.
StagingLease take_staging(const ExecutorState& state, const CallArguments& arguments, CallPart part, MetadataPath path);

}  // namespace fmhax::detail
