/// @file Plan once, enqueue many times.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fmhax/error.hpp"
#include "fmhax/problem.hpp"
#include "fmhax/registry.hpp"
#include "fmhax/tensor.hpp"
#include "fmhax/workspace.hpp"

namespace fmhax {

/// How pinned staging gets back to its owner after an eager call.
enum class Keepalive {
  event,         ///< an event at the stream's tail; staging is reused once it has passed (default)
  host_function  ///< a host function at the tail hands the staging over at once; costs tens of µs on a GPU
};

/// Who turns sequence lengths into the workspace's metadata.
enum class MetadataPath {
  /// Copies to pinned memory, a host function, a copy back: any kernel, hidden behind 50 µs of other work (default).
  /// Graphs take the device path by themselves on a runtime whose graphs don't run host functions rightly.
  host,
  /// One kernel that also zeroes dq_acc, and computes d for entries with KernelRole::prepare_and_dot: no host node, no
  /// copy, no staging. For entries with KernelRole::prepare.
  device
};

struct ExecutorOptions {
  Keepalive keepalive = Keepalive::event;
  MetadataPath metadata_path = MetadataPath::host;
  std::string kernel;  ///< use this registered entry and no other; empty: the best one
  /// A ceiling for workspace_size(), 0: none. Deterministic kernels that can then sum several key tiles in each split
  /// of dq_acc, as few as the ceiling allows; others are not chosen when they need more. Another ceiling may give other
  /// bits.
  std::int64_t max_workspace_bytes = 0;
  /// Called once for each eager call whose arguments bring no workspace, and once for each graph or
  /// captured call. Returns `bytes` of device memory, 16-byte aligned, that stay valid until the enqueued
  /// work is over (for a graph: its last replay). With zero_init the memory must read as zero from this
  /// point of the stream on; during capture and for graphs it is never asked for, the graph zeroes itself.
  std::function<void*(std::size_t bytes, bool zero_init)> workspace_alloc;
  /// Returns pinned host memory, 16-byte aligned. It is released after the stream has passed the call, or after the
  /// last graph that reads it is gone: by a later call on the device or when the executor is destroyed, on that
  /// thread, never on a callback thread of the runtime. A deleter that waits makes that call wait; hipHostFree does.
  std::function<std::shared_ptr<void>(std::size_t bytes)> pinned_host_alloc;
};

/// Frees what graphs that are gone left on the current device, as far as it is no longer in flight: their executables
/// and workspaces. Making an Executor or a Graph does the same. This also takes back what calls left behind whose event
/// HIP failed to record. May wait for the device, so not while one of its streams is capturing. Thread-safe.
void release_unused_memory();

namespace detail {
class ExecutorState;
}

/// A planned problem on one device: kernels chosen, sizes known. Immutable and cheap to copy (copies share
/// the plan); every const member may be called from many threads at once, on different workspaces.
/// Nothing here waits for the device.
class Executor {
 public:
  /// Plans for the current device. Throws Error(invalid_argument, unsupported, hip); unsupported also when the entry
  /// has no kernel for MetadataPath::device. The first plan of a process that packs on the host tries on a stream of
  /// its own, and waits for it, whether graphs run host functions.
  explicit Executor(const Problem& problem, ExecutorOptions options = {});

  const Problem& problem() const noexcept;
  const WorkspaceSpec& workspace_spec() const noexcept;
  const DeviceTraits& device() const noexcept;
  const KernelChoice& kernel_choice() const noexcept;

  /// Bytes that suffice for every call within the capacity (exact in batch mode).
  std::int64_t workspace_size() const;
  /// Bytes for these host sequence starts, int32[batch + 1] each.
  std::int64_t workspace_size(const std::int32_t* seqstart_q, const std::int32_t* seqstart_k) const;

  /// The whole backward pass on `stream`: preparation, kernels, keepalive. Eager, or recorded when the
  /// stream is capturing; the captured graph then owns its staging. Throws before anything is enqueued.
  void enqueue(const CallArguments& arguments, hipStream_t stream) const;

  /// The metadata alone, from sequence starts in device memory (arguments.lengths). They serve any number of
  /// enqueue_kernels() of this plan with the same lengths, until the workspace is prepared again.
  void prepare_workspace_async(const CallArguments& arguments, hipStream_t stream) const;
  /// The metadata alone, from lengths in host memory, which are read, checked and packed before the
  /// call returns (bad ones throw); the workspace is ready in stream order. Needs only
  /// workspace_size(seqstart_q, seqstart_k) bytes. Not while capturing.
  void prepare_workspace(const CallArguments& arguments, const SequenceLengths& host_lengths, hipStream_t stream) const;
  /// The zeroing and the kernels, over a workspace prepared earlier on this stream's time line.
  void enqueue_kernels(const CallArguments& arguments, hipStream_t stream) const;

  /// o and lse from q, k, v, for samples and tests. Throws Error(unsupported) when the chosen entry has no
  /// forward kernel. o, lse are written for every row; rows that see no key get o = 0, lse = -inf.
  void enqueue_forward(const CallArguments& arguments, hipStream_t stream) const;

  /// The node list of one call as text, one node a line, or as a Graphviz digraph.
  std::string describe_nodes() const;
  std::string dot() const;

  const std::shared_ptr<const detail::ExecutorState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<const detail::ExecutorState> state_;
};

}  // namespace fmhax
