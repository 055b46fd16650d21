/// @file Eager calls as launches of executable graphs, where that takes the caller less time than launching kernels.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <memory>
#include <mutex>

#include "node_list.hpp"
#include "staging_pool.hpp"

namespace fmhax::detail {

/// Whether eager calls are launched as graphs: by default where changing an executable leaves the launches before it
/// alone, which CUDA promises. Tests decide for themselves.
void use_eager_graphs(bool are_used) noexcept;

/// One plan's executables, one a stream: each call sets what differs from the call before it and launches. On one H200
/// that takes the calling thread 4.3 us where three kernel launches take 14. Thread-safe.
class EagerGraphs {
 public:
  /// The first one in a process may wait for the device.
  explicit EagerGraphs(StagingPool& pool);
  /// Launches may be in flight.
  ~EagerGraphs();
  EagerGraphs(const EagerGraphs&) = delete;
  EagerGraphs& operator=(const EagerGraphs&) = delete;

  /// False, with nothing enqueued, where the nodes have to be enqueued one by one: they are not several kernels, or not
  /// the kinds of the stream's first call; the stream has a priority, which graphs don't heed; there are too many
  /// streams, or two threads use one at once. Throws when the launch fails.
  bool launch(const NodeList& list, hipStream_t stream);

 private:
  static constexpr std::size_t kMostStreams = 8;
  struct OnStream;

  /// Null where there are too many.
  OnStream* of_stream(hipStream_t stream);

  StagingPool& pool_;
  std::mutex mutex_;  ///< of the array, never held during a HIP call
  std::array<std::unique_ptr<OnStream>, kMostStreams> streams_;
};

}  // namespace fmhax::detail
