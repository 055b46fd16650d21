#include "peer_backward.hpp"

#include "node_list.hpp"
#include "node_walk.hpp"

namespace fmhax::test {
namespace {

/// Shortens sequences that are longer than `longest`; those behind move up.
void cut(std::int32_t* starts, std::size_t entries, std::int32_t longest) {
  std::int32_t moved = 0;
  for (std::size_t i = 0; i + 1 < entries; ++i) {
    const std::int32_t length = starts[i + 1] - moved - starts[i];
    if (length > longest) moved += length - longest;
    starts[i + 1] -= moved;
  }
}

}  // namespace

PeerBackward::PeerBackward(Call& call, PeerFaults faults) : call_(call), faults_(faults) {
  const detail::ExecutorState& state = *call.executor.state();
  lease_ = detail::StagingLease(state.pool.acquire(state.staging.bytes, {}));
  auto* base = static_cast<std::byte*>(lease_->memory);
  closure_.job = detail::make_pack_job(base, state.staging, state.spec, state.problem,
                                       state.workspace_bytes - state.metadata_bytes, nullptr);
  closure_.starts[0] = reinterpret_cast<std::int32_t*>(base + state.staging.seqstart_q);
  closure_.starts[1] = reinterpret_cast<std::int32_t*>(base + state.staging.seqstart_k);
  closure_.entries = static_cast<std::size_t>(state.problem.batch) + 1;
  closure_.frozen_max_seqlen = faults.frozen_max_seqlen;
  closure_.frees_itself = faults.closure_frees_itself;
  for (verification::GuardedBuffer& buffer : cut_starts_) {
    buffer = verification::GuardedBuffer(closure_.entries * sizeof(std::int32_t));
  }
}

void PeerBackward::run(void* data) {
  auto& closure = *static_cast<Closure*>(data);
  if (closure.is_freed) {
    ++closure.uses_after_free;
    return;
  }
  if (closure.frozen_max_seqlen > 0) {
    for (std::int32_t* starts : closure.starts) cut(starts, closure.entries, closure.frozen_max_seqlen);
  }
  detail::run_pack_job(closure.job);
  closure.is_freed = closure.frees_itself;
}

void PeerBackward::enqueue(hipStream_t stream) {
  const detail::ExecutorState& state = *call_.executor.state();
  CallArguments arguments = call_.arguments();
  auto* base = static_cast<std::byte*>(lease_->memory);
  const auto copy = [stream](void* to, const void* from, std::size_t bytes, hipMemcpyKind kind) {
    check_hip(hipMemcpyAsync(to, from, bytes, kind, stream), "hipMemcpyAsync");
  };
  if (faults_.packs_when_enqueued) {
    const verification::HostLengths& lengths = call_.prepared.source.lengths;
    (void)pack_workspace_host(state.spec, state.problem, lengths.q.seqstart.data(), lengths.k.seqstart.data(),
                              base + state.staging.metadata);
  } else {
    copy(closure_.starts[0], arguments.lengths.seqstart_q, state.staging.seqstart_bytes, hipMemcpyDeviceToHost);
    copy(closure_.starts[1], arguments.lengths.seqstart_k, state.staging.seqstart_bytes, hipMemcpyDeviceToHost);
    check_hip(hipLaunchHostFunc(stream, run, &closure_), "hipLaunchHostFunc");
  }
  if (faults_.frozen_max_seqlen > 0) {
    for (std::size_t side = 0; side < 2; ++side) {
      copy(cut_starts_[side].data(), closure_.starts[side], state.staging.seqstart_bytes, hipMemcpyHostToDevice);
    }
    arguments.lengths.seqstart_q = static_cast<const std::int32_t*>(cut_starts_[0].data());
    arguments.lengths.seqstart_k = static_cast<const std::int32_t*>(cut_starts_[1].data());
  }
  copy(arguments.workspace, base + state.staging.metadata, state.staging.metadata_bytes, hipMemcpyHostToDevice);
  if (!faults_.zeroes_first_call_only || !has_zeroed_) {
    check_hip(hipMemsetAsync(static_cast<std::byte*>(arguments.workspace) + state.metadata_bytes, 0,
                             static_cast<std::size_t>(state.workspace_bytes - state.metadata_bytes), stream),
              "hipMemsetAsync");
    has_zeroed_ = true;
  }
  detail::NodeList kernels;
  state.build_node_list(arguments, {.part = detail::CallPart::kernels, .zeroes_dq_acc = false}, kernels);
  for (const detail::Node& node : kernels.nodes()) {
    detail::launch_kernel(*std::get<detail::KernelNode>(node.operation).launch, stream);
  }
}

}  // namespace fmhax::test
