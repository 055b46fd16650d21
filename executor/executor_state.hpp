/// @file What an executor planned: immutable, shared by its copies and its graphs.
#pragma once

#include <cstdint>

#include "fmhax/executor.hpp"
#include "node_list.hpp"
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
  ~ExecutorState() { pool.collect(); }
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
  /// The lengths come from the device and the kernels read metadata made from them.
  const bool has_host_chain;
  StagingPool& pool;

  /// Fills `list` with one call. `staging` is needed where the host chain is; `arguments` may be empty when the list
  /// is only printed. dq_acc_bytes is how much of the accumulator to zero.
  void build_node_list(const CallArguments& arguments, CallPart part, void* staging, std::int64_t dq_acc_bytes,
                       NodeList& list) const;

  /// The metadata of batch mode without logical lengths, one constant.
  void add_batch_metadata(const CallArguments& arguments, NodeList& list) const;
  /// Zeroing where the kernels need it.
  void add_zero(const CallArguments& arguments, std::int64_t dq_acc_bytes, NodeList& list) const;

  KernelParams kernel_params(const CallArguments& arguments) const;
};

/// The problem's traits of the current device.
DeviceTraits current_device_traits();

}  // namespace fmhax::detail
