#include "fmhax/executor.hpp"

#include <utility>

#include "call_check.hpp"
#include "enqueue.hpp"
#include "executor_state.hpp"
#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax {

using detail::CallPart;

void release_unused_memory() {
  int device = 0;
  FMHAX_HIP(hipGetDevice, &device);
  detail::StagingPool& pool = detail::StagingPool::of_device(device);
  pool.take_back_given_up();
  pool.collect();
}

Executor::Executor(const Problem& problem, ExecutorOptions options)
    : state_(std::make_shared<const detail::ExecutorState>(problem, std::move(options))) {}

const Problem& Executor::problem() const noexcept { return state_->problem; }
const WorkspaceSpec& Executor::workspace_spec() const noexcept { return state_->spec; }
const DeviceTraits& Executor::device() const noexcept { return state_->traits; }
const KernelChoice& Executor::kernel_choice() const noexcept { return state_->choice; }

std::int64_t Executor::workspace_size() const { return state_->workspace_bytes; }

std::int64_t Executor::workspace_size(const std::int32_t* seqstart_q, const std::int32_t* seqstart_k) const {
  return fmhax::workspace_size(state_->spec, state_->problem, seqstart_q, seqstart_k);
}

void Executor::enqueue(const CallArguments& arguments, hipStream_t stream) const {
  detail::enqueue_call(*state_, arguments, CallPart::all, stream);
}

void Executor::prepare_workspace_async(const CallArguments& arguments, hipStream_t stream) const {
  detail::enqueue_call(*state_, arguments, CallPart::preparation, stream);
}

void Executor::enqueue_kernels(const CallArguments& arguments, hipStream_t stream) const {
  detail::enqueue_call(*state_, arguments, CallPart::kernels, stream);
}

void Executor::prepare_workspace(const CallArguments& arguments, const SequenceLengths& host_lengths,
                                 hipStream_t stream) const {
  detail::prepare_from_host(*state_, arguments, host_lengths, stream);
}

void Executor::enqueue_forward(const CallArguments& arguments, hipStream_t stream) const {
  const detail::ExecutorState& state = *state_;
  const detail::DeviceGuard guard(detail::check_stream(state, stream), state.traits.device);
  detail::check_call(state, arguments, {.backward = false});
  KernelLaunch launch;
  if (!state.choice.entry().form_launch(KernelRole::forward, state.traits, state.kernel_params(arguments), launch)) {
    throw Error(ErrorCode::unsupported, std::string("kernel '") + state.choice.entry().name + "' has no forward");
  }
  if (launch.grid[0] > 0) detail::launch_kernel(launch, stream);
}

std::string Executor::describe_nodes() const {
  detail::NodeList list;
  state_->build_node_list({}, {.path = state_->options.metadata_path}, list);
  return detail::describe(list);
}

std::string Executor::dot() const {
  detail::NodeList list;
  state_->build_node_list({}, {.path = state_->options.metadata_path}, list);
  return detail::dot(list);
}

}  // namespace fmhax
