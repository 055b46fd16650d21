/// @file What an executor planned: immutable, shared by its copies and its graphs.
#pragma once

#include <cstdint>

#include "eager_graphs.hpp"
#include "fmhax/executor.hpp"
#include "node_list.hpp"
#include "pointer_memo.hpp"
#include "staging.hpp"
#include "staging_pool.hpp"

namespace fmhax::detail {

/// Which nodes of a call are wanted.
enum class CallPart { all, preparation, kernels };

class ExecutorState {
 public:
  /// Plans for the current device.
  ExecutorState(const Problem& problem, ExecutorOptions options);
  /// Lets go of what finished calls kept alive.
  ~ExecutorState() { pool.recycle(); }
  ExecutorState(const ExecutorState&) = delete;
  ExecutorState& operator=(const ExecutorState&) = delete;

  const Problem problem;
  const ExecutorOptions options;
  const DeviceTraits traits;
  const KernelChoice choice;
  const WorkspaceSpec spec;
  const StagingLayout staging;
  const std::int64_t metadata_bytes;
  const std::int64_t workspace_bytes;  ///< for the capacity
  /// The kernels read metadata, and they are made from lengths in device memory.
  const bool packs_lengths;
  /// Calls use d.
  const bool has_d;
  const bool has_prepare_kernel;
  const bool has_prepare_and_dot_kernel;
  StagingPool& pool;
  /// Found to be memory that kernels on the plan's device may use.
  mutable PointerMemo known_pointers;
  mutable EagerGraphs eager_graphs;

  /// How a call's metadata are made. Graphs whose host functions don't run take the device path, or are refused with
  /// Error(unsupported) where the kernels have none.
  MetadataPath metadata_path(bool in_graph) const;

  /// Fills `list` with one call. `staging` is needed where a host function packs; `arguments` may be empty when the
  /// list is only printed. zeroes_dq_acc is false where the accumulator is known to be zero.
  struct Building {
    CallPart part = CallPart::all;
    MetadataPath path = MetadataPath::host;
    void* staging = nullptr;
    bool zeroes_dq_acc = true;
  };
  void build_node_list(const CallArguments& arguments, const Building& how, NodeList& list) const;

  /// The metadata of batch mode without logical lengths, one constant.
  void add_batch_metadata(const CallArguments& arguments, NodeList& list) const;
  /// Zeroing where the kernels need it.
  void add_zero(const CallArguments& arguments, NodeList& list) const;

  KernelParams kernel_params(const CallArguments& arguments) const;

 private:
  /// The preparation is one launch, of the role that also computes d: on the device path, and in batch mode on any.
  bool computes_d_while_preparing(const Building& how) const;
  /// The metadata, and zeroes and d where they come with them.
  void add_preparation(const CallArguments& arguments, const Building& how, NodeList& list) const;
  void add_host_chain(const CallArguments& arguments, void* staging, NodeList& list) const;
  /// Adds nothing where there is nothing to launch.
  void add_kernel(NodeKind kind, KernelRole role, const KernelParams& params, NodeList& list) const;
};

/// The problem's traits of the current device.
DeviceTraits current_device_traits();

}  // namespace fmhax::detail
