#include "enqueue.hpp"

#include <array>
#include <optional>

#include "call_check.hpp"
#include "hip_calls.hpp"
#include "hip_compat.hpp"
#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

void hand_back_block(void* block) { StagingPool::hand_back(static_cast<StagingBlock*>(block)); }

/// Keeps the staging for as long as something reads it.
void release_after_call(const ExecutorState& state, StagingBlock* block, hipStream_t stream) {
  if (state.options.keepalive == Keepalive::host_function) {
    if (hipLaunchHostFunc(stream, hand_back_block, block) == hipSuccess) return;
    (void)hipGetLastError();
  }
  state.pool.release_after_stream(block, stream);
}

void play(const ExecutorState& state, const NodeList& list, StagingLease lease, hipStream_t stream) {
  StagingBlock* block = lease.detach();
  try {
    if (!state.eager_graphs.launch(list, stream)) play_on_stream(list, stream, state.traits.device);
  } catch (...) {
    // Some nodes may be on their way; the block is theirs until the stream has passed them.
    if (block != nullptr) state.pool.release_after_stream(block, stream);
    throw;
  }
  if (block != nullptr) release_after_call(state, block, stream);
}

/// Ties the block to the captured graph: it returns to its pool with the last executable made from the graph.
void retain_by_graph(hipGraph_t graph, StagingLease lease) {
#if FMHAX_HAS_USER_OBJECTS
  hipUserObject_t object = nullptr;
  FMHAX_HIP(hipUserObjectCreate, &object, lease.get(), hand_back_block, 1, hipUserObjectNoDestructorSync);
  // From here on the object owns the block.
  (void)lease.detach();
  const hipError_t error = hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove);
  if (error != hipSuccess) {
    (void)hipUserObjectRelease(object, 1);
    throw_hip_error(error, "hipGraphRetainUserObject");
  }
#else
  // Nothing tells when the graph is gone, so its staging is never reused: the price of a runtime without user objects.
  (void)graph;
  (void)lease.detach();
#endif
}

void record(const ExecutorState& state, const NodeList& list, StagingLease lease, Capture capture, hipStream_t stream) {
  // An allocator of the caller's may have recorded work of its own since the capture was asked about.
  if (state.options.workspace_alloc || state.options.pinned_host_alloc) capture = capture_of(stream);
  if (lease) retain_by_graph(capture.graph, std::move(lease));
  AddedNodes added = add_to_graph(list, capture.graph, {capture.dependencies, capture.dependency_count});
  FMHAX_HIP(hipStreamUpdateCaptureDependencies, stream, added.sinks.data(), added.sink_count,
            hipStreamSetCaptureDependencies);
}

}  // namespace

Capture capture_of(hipStream_t stream) {
  Capture capture;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  FMHAX_HIP(hipStreamGetCaptureInfo_v2, stream, &status, &id, &capture.graph, &capture.dependencies,
            &capture.dependency_count);
  if (status == hipStreamCaptureStatusInvalidated) {
    throw Error(ErrorCode::hip, "the stream's capture is already invalid; end it before enqueueing",
                static_cast<int>(hipErrorStreamCaptureInvalidated));
  }
  capture.active = status == hipStreamCaptureStatusActive;
  return capture;
}

void check_not_capturing(hipStream_t stream) {
  if (!capture_of(stream).active) return;
  throw Error(ErrorCode::invalid_argument,
              "stream is capturing; record the call with Executor::enqueue, or add Graph::native() as a child node");
}

StagingLease take_staging(const ExecutorState& state, const CallArguments& arguments, CallPart part,
                          MetadataPath path) {
  const bool packs = state.packs_lengths && path == MetadataPath::host && part != CallPart::kernels;
  if (!packs && !arguments.status) return {};
  StagingLease lease(state.pool.acquire(packs ? state.staging.bytes : 0, state.options.pinned_host_alloc));
  lease->status = arguments.status.shared();
  if (packs) {
    make_pack_job(lease->memory, state.staging, state.spec, state.problem,
                  arguments.workspace_bytes - state.metadata_bytes, lease->status.get());
  }
  return lease;
}

void enqueue_call(const ExecutorState& state, const CallArguments& given, CallPart part, hipStream_t stream) {
  const DeviceGuard guard(check_stream(state, stream), state.traits.device);
  const Capture capture = capture_of(stream);
  const MetadataPath path = state.metadata_path(capture.active);

  const bool allocates = part == CallPart::all && given.workspace == nullptr && state.workspace_bytes > 0 &&
                         state.options.workspace_alloc != nullptr;
  CallUse use{.kernels = part != CallPart::preparation};
  if (!allocates) use.workspace_bytes = part == CallPart::kernels ? state.metadata_bytes : state.workspace_bytes;
  check_call(state, given, use);

  std::optional<CallArguments> completed;
  bool zeroed_by_allocator = false;
  if (allocates) {
    zeroed_by_allocator = state.spec.needs_zero_dq_acc && !capture.active;
    completed = given;
    completed->workspace =
        state.options.workspace_alloc(static_cast<std::size_t>(state.workspace_bytes), zeroed_by_allocator);
    completed->workspace_bytes = state.workspace_bytes;
    use.workspace_bytes = state.workspace_bytes;
    if (completed->workspace == nullptr) {
      throw Error(ErrorCode::out_of_memory,
                  "workspace_alloc returned no memory for " + std::to_string(state.workspace_bytes) + " bytes");
    }
    check_call(state, *completed, use);
  }
  const CallArguments& arguments = completed ? *completed : given;
  StagingLease lease = take_staging(state, arguments, part, path);
  NodeList list;
  state.build_node_list(
      arguments,
      {.part = part, .path = path, .staging = lease ? lease->memory : nullptr, .zeroes_dq_acc = !zeroed_by_allocator},
      list);
  if (list.empty()) return;
  if (capture.active) {
    record(state, list, std::move(lease), capture, stream);
  } else {
    play(state, list, std::move(lease), stream);
  }
}

void prepare_from_host(const ExecutorState& state, const CallArguments& arguments, const SequenceLengths& host_lengths,
                       hipStream_t stream) {
  const DeviceGuard guard(check_stream(state, stream), state.traits.device);
  if (capture_of(stream).active) {
    throw Error(ErrorCode::invalid_argument,
                "stream is capturing; lengths from host memory would be frozen into the graph, use "
                "prepare_workspace_async");
  }
  if (state.spec.writes_dq_directly) return;
  check_host_lengths(state, host_lengths);
  const std::int64_t needed =
      workspace_size(state.spec, state.problem, host_lengths.seqstart_q, host_lengths.seqstart_k);
  check_workspace(state, arguments, needed);

  StagingLease lease;
  NodeList list;
  if (state.packs_lengths) {
    lease = StagingLease(state.pool.acquire(state.staging.metadata_bytes, state.options.pinned_host_alloc));
    lease->status = arguments.status.shared();
    (void)pack_workspace_host(state.spec, state.problem, host_lengths, lease->memory, needed - state.metadata_bytes);
    list.add(NodeKind::upload,
             CopyNode{arguments.workspace, lease->memory, state.staging.metadata_bytes, hipMemcpyHostToDevice});
  } else {
    state.add_batch_metadata(arguments, list);
  }
  play(state, list, std::move(lease), stream);
}

}  // namespace fmhax::detail
