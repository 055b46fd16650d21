#include "executor_state.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hip_calls.hpp"
#include "hip_compat.hpp"
#include "side_lane.hpp"

namespace fmhax::detail {
namespace {

const Problem& validated(const Problem& problem) {
  validate(problem);
  return problem;
}

TensorRef tensor_ref(const TensorView& view) {
  return {view.data, view.stride_batch, view.stride_seqlen, view.stride_nhead};
}

}  // namespace

DeviceTraits current_device_traits() {
  DeviceTraits traits;
  FMHAX_HIP(hipGetDevice, &traits.device);
  hipDeviceProp_t properties{};
  check_hip(hipGetDeviceProperties(&properties, traits.device), "hipGetDeviceProperties");
  traits.multiprocessors = properties.multiProcessorCount;
  traits.shared_memory_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlock);
  const std::size_t length = strnlen(properties.gcnArchName, sizeof(traits.arch) - 1);
  std::memcpy(traits.arch, properties.gcnArchName, length);
  return traits;
}

ExecutorState::ExecutorState(const Problem& given, ExecutorOptions given_options)
    : problem(validated(given)),
      options(std::move(given_options)),
      traits(current_device_traits()),
      choice(choose_kernel(registered_kernels(), problem, traits, options.kernel)),
      spec(choice.entry().workspace_spec(problem, traits)),
      staging(staging_layout(spec, problem)),
      metadata_bytes(workspace_host_size(spec, problem.batch)),
      workspace_bytes(workspace_size(spec, problem)),
      has_host_chain(!spec.writes_dq_directly &&
                     (problem.is_group_mode || problem.logical_lengths != LogicalLengths::none)),
      pool(StagingPool::of_device(traits.device)) {
  if (has_host_chain) make_side_lanes(traits.device);
}

KernelParams ExecutorState::kernel_params(const CallArguments& arguments) const {
  KernelParams params;
  params.problem = problem;
  params.scale = arguments.scale;
  params.q = tensor_ref(arguments.q);
  params.k = tensor_ref(arguments.k);
  params.v = tensor_ref(arguments.v);
  params.o = tensor_ref(arguments.o);
  params.dout = tensor_ref(arguments.dout);
  params.lse = tensor_ref(arguments.lse);
  params.d = tensor_ref(arguments.d);
  params.dq = tensor_ref(arguments.dq);
  params.dk = tensor_ref(arguments.dk);
  params.dv = tensor_ref(arguments.dv);
  params.lengths = arguments.lengths;
  params.status = arguments.status.shared().get();
  if (!spec.writes_dq_directly && arguments.workspace != nullptr) {
    auto* base = static_cast<std::byte*>(arguments.workspace);
    params.nsplits = reinterpret_cast<const std::int32_t*>(base);
    if (problem.is_group_mode) {
      params.dq_acc_offsets =
          reinterpret_cast<const std::int64_t*>(base + dq_acc_offsets_position(spec, problem.batch));
    }
    params.dq_acc = base + metadata_bytes;
  }
  return params;
}

void ExecutorState::add_batch_metadata(const CallArguments& arguments, NodeList& list) const {
  const auto nsplits = static_cast<std::uint32_t>(split_count(spec, problem, problem.max_seqlen_k));
  list.add(NodeKind::set_nsplits, SetNode{arguments.workspace, nsplits, 1});
}

void ExecutorState::add_zero(const CallArguments& arguments, std::int64_t dq_acc_bytes, NodeList& list) const {
  if (!spec.needs_zero_dq_acc || dq_acc_bytes == 0) return;
  std::byte* dq_acc =
      arguments.workspace != nullptr ? static_cast<std::byte*>(arguments.workspace) + metadata_bytes : nullptr;
  list.add(NodeKind::zero, SetNode{dq_acc, 0, static_cast<std::size_t>(dq_acc_bytes) / sizeof(std::uint32_t)});
}

void ExecutorState::build_node_list(const CallArguments& arguments, CallPart part, void* staging_memory,
                                    std::int64_t dq_acc_bytes, NodeList& list) const {
  const bool prepares = part != CallPart::kernels && !spec.writes_dq_directly;
  if (prepares && has_host_chain) {
    auto* base = static_cast<std::byte*>(staging_memory);
    const auto at = [base](std::size_t position) { return base != nullptr ? base + position : nullptr; };
    const auto fetch = [&](NodeKind kind, const std::int32_t* source, std::size_t position, std::size_t bytes) {
      if (bytes > 0) list.add(kind, CopyNode{at(position), source, bytes, hipMemcpyDeviceToHost});
    };
    const SequenceLengths& lengths = arguments.lengths;
    const bool cumulative = problem.logical_lengths == LogicalLengths::cumulative;
    fetch(NodeKind::fetch_q, lengths.seqstart_q, staging.seqstart_q, staging.seqstart_bytes);
    fetch(NodeKind::fetch_k, lengths.seqstart_k, staging.seqstart_k, staging.seqstart_bytes);
    fetch(NodeKind::fetch_logical_q, cumulative ? lengths.cu_seqlen_q : lengths.seqlen_q, staging.logical_q,
          staging.logical_bytes);
    fetch(NodeKind::fetch_logical_k, cumulative ? lengths.cu_seqlen_k : lengths.seqlen_k, staging.logical_k,
          staging.logical_bytes);
    list.add(NodeKind::pack, HostNode{[](void* job) { run_pack_job(job); }, base});
    list.add(NodeKind::upload,
             CopyNode{arguments.workspace, at(staging.metadata), staging.metadata_bytes, hipMemcpyHostToDevice});
  }
  if (prepares && !has_host_chain) add_batch_metadata(arguments, list);
  if (prepares) add_zero(arguments, dq_acc_bytes, list);
  if (part == CallPart::preparation) return;
  const KernelParams params = kernel_params(arguments);
  const auto add_kernel = [&](NodeKind kind, KernelRole role) {
    KernelLaunch& launch = list.add_kernel(kind);
    const bool has_role = choice.entry().form_launch(role, traits, params, launch);
    if (!has_role || launch.grid[0] == 0) list.drop_last();
  };
  add_kernel(NodeKind::dot_do_o, KernelRole::dot_do_o);
  add_kernel(NodeKind::dq_dk_dv, KernelRole::dq_dk_dv);
  add_kernel(NodeKind::convert_dq, KernelRole::convert_dq);
}

}  // namespace fmhax::detail
