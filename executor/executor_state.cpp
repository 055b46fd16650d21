#include "executor_state.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "hip_calls.hpp"
#include "hip_compat.hpp"
#include "kernel_loading.hpp"
#include "runtime_probe.hpp"
#include "side_lane.hpp"

namespace fmhax::detail {
namespace {

const Problem& validated(const Problem& problem) {
  validate(problem);
  return problem;
}

ExecutorOptions validated(ExecutorOptions options) {
  if (options.max_workspace_bytes < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("options.max_workspace_bytes is {}, but must be 0 or more", options.max_workspace_bytes));
  }
  return options;
}

WorkspaceSpec planned_spec(const KernelEntry& entry, const Problem& problem, const DeviceTraits& traits,
                           std::int64_t max_bytes) {
  WorkspaceSpec spec = entry.workspace_spec(problem, traits);
  if (max_bytes > 0) spec.max_splits = max_splits_within(spec, problem, max_bytes);
  return spec;
}

TensorRef tensor_ref(const TensorView& view) {
  return {view.data, view.stride_batch, view.stride_seqlen, view.stride_nhead};
}

/// Broadcast axes have stride 0.
TensorRef broadcast_ref(const TensorView& view) {
  TensorRef ref = tensor_ref(view);
  if (view.batch == 1) ref.stride_batch = 0;
  if (view.nhead == 1) ref.stride_nhead = 0;
  return ref;
}

bool has_role(const KernelEntry& entry, KernelRole role, const KernelParams& params, const DeviceTraits& traits) {
  KernelLaunch launch;
  return entry.form_launch(role, traits, params, launch);
}

}  // namespace

DeviceTraits current_device_traits() {
  DeviceTraits traits;
  FMHAX_HIP(hipGetDevice, &traits.device);
  hipDeviceProp_t properties{};
  check_hip(hipGetDeviceProperties(&properties, traits.device), "hipGetDeviceProperties");
  traits.multiprocessors = properties.multiProcessorCount;
  traits.shared_memory_per_block = static_cast<std::int64_t>(most_shared_memory(properties, traits.device));
  const std::size_t length = strnlen(properties.gcnArchName, sizeof(traits.arch) - 1);
  std::memcpy(traits.arch, properties.gcnArchName, length);
  return traits;
}

ExecutorState::ExecutorState(const Problem& given, ExecutorOptions given_options)
    : problem(validated(given)),
      options(validated(std::move(given_options))),
      traits(current_device_traits()),
      choice(choose_kernel(registered_kernels(), problem, traits, options.kernel, options.max_workspace_bytes)),
      spec(planned_spec(choice.entry(), problem, traits, options.max_workspace_bytes)),
      staging(staging_layout(spec, problem)),
      metadata_bytes(workspace_host_size(spec, problem.batch)),
      workspace_bytes(workspace_size(spec, problem)),
      packs_lengths(!spec.writes_dq_directly &&
                    (problem.is_group_mode || problem.logical_lengths != LogicalLengths::none)),
      has_d(!spec.writes_dq_directly || problem.has_dbias || problem.has_sink),
      has_prepare_kernel(has_role(choice.entry(), KernelRole::prepare, kernel_params({}), traits)),
      has_prepare_and_dot_kernel(has_role(choice.entry(), KernelRole::prepare_and_dot, kernel_params({}), traits)),
      pool(StagingPool::of_device(traits.device)),
      eager_graphs(pool) {
  pool.collect();
  if (options.metadata_path == MetadataPath::device && !spec.writes_dq_directly && !has_prepare_kernel) {
    throw Error(ErrorCode::unsupported, fmt::format("options.metadata_path is device, but kernel '{}' has none that "
                                                    "prepares the workspace; use MetadataPath::host",
                                                    choice.entry().name));
  }
  load_kernels(choice.entry(), traits, kernel_params({}));
  if (options.metadata_path == MetadataPath::host && packs_lengths) {
    make_side_lanes(traits.device);
    (void)graphs_run_host_functions();  // tried now, since calls must not wait
  }
}

MetadataPath ExecutorState::metadata_path(bool in_graph) const {
  if (options.metadata_path == MetadataPath::device || !in_graph || !packs_lengths || graphs_run_host_functions()) {
    return options.metadata_path;
  }
  if (has_prepare_kernel) return MetadataPath::device;
  throw Error(ErrorCode::unsupported,
              fmt::format("this runtime's graphs don't run host functions, and kernel '{}' can't prepare the workspace "
                          "without them; enqueue on a stream that is not capturing",
                          choice.entry().name));
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
  params.bias = broadcast_ref(arguments.bias);
  params.dbias = broadcast_ref(arguments.dbias);
  // Plans and printed lists have no dbias; theirs is the smallest.
  const bool is_planned = problem.has_dbias && arguments.dbias == TensorView{};
  params.dbias_batch = is_planned ? 1 : arguments.dbias.batch;
  params.dbias_nhead = is_planned ? 1 : arguments.dbias.nhead;
  params.alibi_slopes = arguments.alibi_slopes;
  params.alibi_stride_batch = arguments.alibi_stride_batch;
  params.random_values = tensor_ref(arguments.random_values);
  params.dlse = tensor_ref(arguments.dlse);
  params.sink = arguments.sink;
  params.dsink = arguments.dsink;
  params.dropout = arguments.dropout;
  params.softcap = arguments.softcap;
  params.status = arguments.status.shared().get();
  params.max_splits = spec.max_splits;
  if (!spec.writes_dq_directly && arguments.workspace != nullptr) {
    auto* base = static_cast<std::byte*>(arguments.workspace);
    params.nsplits = reinterpret_cast<const std::int32_t*>(base);
    if (problem.is_group_mode) {
      params.dq_acc_offsets =
          reinterpret_cast<const std::int64_t*>(base + dq_acc_offsets_position(spec, problem.batch));
    }
    if (holds_tile_list(spec)) {
      params.tile_starts = reinterpret_cast<const std::int32_t*>(base + tile_starts_position(spec, problem.batch));
      params.tile_sequences =
          reinterpret_cast<const std::int32_t*>(base + tile_sequences_position(spec, problem.batch));
    }
    params.dq_acc = base + metadata_bytes;
    params.metadata = base;
    params.dq_acc_bytes = arguments.workspace_bytes - metadata_bytes;
  }
  return params;
}

void ExecutorState::add_batch_metadata(const CallArguments& arguments, NodeList& list) const {
  const auto nsplits = static_cast<std::uint32_t>(split_count(spec, problem, problem.max_seqlen_k));
  list.add(NodeKind::set_nsplits, SetNode{arguments.workspace, nsplits, 1});
}

void ExecutorState::add_zero(const CallArguments& arguments, NodeList& list) const {
  // Printed lists have no workspace; theirs is of the capacity's size.
  const bool is_printed = arguments.workspace == nullptr;
  const std::int64_t given = is_printed ? workspace_bytes : arguments.workspace_bytes;
  const std::int64_t bytes = std::min(given, workspace_bytes) - metadata_bytes;
  if (!spec.needs_zero_dq_acc || bytes == 0) return;
  std::byte* dq_acc = is_printed ? nullptr : static_cast<std::byte*>(arguments.workspace) + metadata_bytes;
  list.add(NodeKind::zero, SetNode{dq_acc, 0, static_cast<std::size_t>(bytes) / sizeof(std::uint32_t)});
}

void ExecutorState::add_host_chain(const CallArguments& arguments, void* staging_memory, NodeList& list) const {
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

void ExecutorState::add_kernel(NodeKind kind, KernelRole role, const KernelParams& params, NodeList& list) const {
  KernelLaunch& launch = list.add_kernel(kind);
  const bool has_role = choice.entry().form_launch(role, traits, params, launch);
  if (!has_role || launch.grid[0] == 0) list.drop_last();
}

bool ExecutorState::computes_d_while_preparing(const Building& how) const {
  return how.part == CallPart::all && has_prepare_and_dot_kernel && !spec.writes_dq_directly &&
         (how.path == MetadataPath::device || !packs_lengths);
}

void ExecutorState::add_preparation(const CallArguments& arguments, const Building& how, NodeList& list) const {
  const bool with_d = computes_d_while_preparing(how);
  if (how.path == MetadataPath::device || with_d) {
    KernelParams params = kernel_params(arguments);
    params.zero_dq_acc = how.part == CallPart::all && how.zeroes_dq_acc && spec.needs_zero_dq_acc;
    if (how.path == MetadataPath::host) params.status = nullptr;  // no lengths are checked, so nothing is reported
    add_kernel(NodeKind::prepare, with_d ? KernelRole::prepare_and_dot : KernelRole::prepare, params, list);
  } else if (packs_lengths) {
    add_host_chain(arguments, how.staging, list);
  } else {
    add_batch_metadata(arguments, list);
  }
}

void ExecutorState::build_node_list(const CallArguments& arguments, const Building& how, NodeList& list) const {
  const bool prepares = how.part != CallPart::kernels && !spec.writes_dq_directly;
  if (prepares) add_preparation(arguments, how, list);
  if (how.part == CallPart::preparation) return;
  const bool has_d_prepared = computes_d_while_preparing(how);
  // Belongs to the kernels, which add to dq_acc: metadata may serve several runs of them, zeroes only one.
  const bool zeroed_with_metadata = has_d_prepared || (prepares && how.path == MetadataPath::device);
  if (how.zeroes_dq_acc && !zeroed_with_metadata) add_zero(arguments, list);
  const KernelParams params = kernel_params(arguments);
  if (!has_d_prepared) add_kernel(NodeKind::dot_do_o, KernelRole::dot_do_o, params, list);
  add_kernel(NodeKind::dq_dk_dv, KernelRole::dq_dk_dv, params, list);
  add_kernel(NodeKind::convert_dq, KernelRole::convert_dq, params, list);
  if (problem.has_dbias) add_kernel(NodeKind::dbias, KernelRole::dbias, params, list);
  if (problem.has_sink) add_kernel(NodeKind::dsink, KernelRole::dsink, params, list);
}

}  // namespace fmhax::detail
