/// @file The backward pass as a reusable executable graph.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <memory>
#include <string>

#include "fmhax/executor.hpp"

namespace fmhax {

/// One call as an explicit graph, instantiated once, launched any number of times with whatever the
/// buffers hold then: other tokens, other sequence starts within the capacity. Owns its staging, and its
/// workspace when the arguments bring none and no workspace_alloc is set. Outlives its Executor.
/// Launches are ordered one after another, also on different streams (the work of one graph is in
/// flight at most once). Thread-safe. Destroying it while a launch is in flight is safe; its memory is freed once that
/// is over, by the next Executor or Graph that is made or by release_unused_memory(), since freeing waits for the
/// device.
class Graph {
 public:
  /// Builds and instantiates. Throws Error before anything is created.
  Graph(const Executor& executor, const CallArguments& arguments);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Retargets the graph for the launches that follow: pointers, strides, scale, lengths arrays, status. The problem
  /// stays. Launches in flight keep the arguments that they were enqueued with. Waits for nothing. Where the runtime is
  /// known to change nodes rightly (tried once per process) the executable is changed in place, else built anew;
  /// counters() says which. When it throws, the graph is what it was, or, where the runtime failed between one node and
  /// the next, refuses to be launched until an update succeeds. FMHAX_REBUILD_GRAPHS=1 in the environment always builds
  /// anew.
  void update(const CallArguments& arguments);

  /// Enqueues one replay on any stream of the executor's device that is not capturing.
  void launch(hipStream_t stream);

  /// What the latest replay that got so far found wrong with its lengths. Final after synchronising.
  CallStatus status() const noexcept;

  struct Counters {
    std::int64_t launches = 0;
    std::int64_t updates = 0;   ///< in place
    std::int64_t rebuilds = 0;  ///< of the executable, by update()
  };
  Counters counters() const;

  /// The graph itself, e.g. to add as a child node. This object owns it and must outlive every graph that embeds it;
  /// after update() a
  /// graph that embeds it is out of date.
  hipGraph_t native() const noexcept;
  std::string dot() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fmhax
