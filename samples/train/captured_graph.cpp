#include "captured_graph.hpp"

#include <cstddef>

#include "hip_objects.hpp"

namespace fmhax::train {

CapturedGraph::CapturedGraph(hipStream_t stream, const std::function<void(hipStream_t)>& enqueue) {
  check(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
  try {
    enqueue(stream);
  } catch (...) {
    if (hipStreamEndCapture(stream, &graph_) == hipSuccess) (void)hipGraphDestroy(graph_);
    throw;
  }
  check(hipStreamEndCapture(stream, &graph_), "hipStreamEndCapture");
  const hipError_t error = hipGraphInstantiate(&executable_, graph_, nullptr, nullptr, 0);
  if (error != hipSuccess) (void)hipGraphDestroy(graph_);
  check(error, "hipGraphInstantiate");
}

CapturedGraph::~CapturedGraph() {
  (void)hipGraphExecDestroy(executable_);
  (void)hipGraphDestroy(graph_);
}

void CapturedGraph::launch(hipStream_t stream) const { check(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }

std::int64_t CapturedGraph::node_count() const {
  std::size_t count = 0;
  check(hipGraphGetNodes(graph_, nullptr, &count), "hipGraphGetNodes");
  return static_cast<std::int64_t>(count);
}

}  // namespace fmhax::train
