/// @file A stretch of stream operations, captured once and replayed.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <functional>

namespace fmhax::train {

/// Owns the graph and its executable form.
class CapturedGraph {
 public:
  /// Captures what `enqueue` puts on the stream (nothing of it runs yet) and instantiates it. When `enqueue` throws,
  /// the capture is ended first, so that the stream stays usable.
  CapturedGraph(hipStream_t stream, const std::function<void(hipStream_t)>& enqueue);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Enqueues one replay.
  void launch(hipStream_t stream) const;
  std::int64_t node_count() const;

 private:
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t executable_ = nullptr;
};

}  // namespace fmhax::train
