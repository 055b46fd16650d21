/// @file The backward pass as a reusable executable graph.
#pragma once

#include <hip/hip_runtime.h>

#include <memory>
#include <string>

#include "fmhax/executor.hpp"

namespace fmhax {

/// One call as an explicit graph, instantiated once, launched any number of times with whatever the
/// buffers hold then: other tokens, other sequence starts within the capacity. Owns its staging, and its
/// workspace when the arguments bring none and no workspace_alloc is set. Outlives its Executor.
/// Launches are ordered one after another, also on different streams (the work of one graph is in
/// flight at most once). Thread-safe. Destroying it while a launch is in flight is safe.
class Graph {
 public:
  /// Builds and instantiates. Throws Error before anything is created.
  Graph(const Executor& executor, const CallArguments& arguments);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Enqueues one replay on any stream of the executor's device that is not capturing.
  void launch(hipStream_t stream);

  /// What the latest replay that got so far found wrong with its lengths. Final after synchronising.
  CallStatus status() const noexcept;

  /// The graph itself (owned by this object), e.g. to add as a child node elsewhere.
  hipGraph_t native() const noexcept;
  std::string dot() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fmhax
