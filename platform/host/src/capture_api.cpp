#include "api.hpp"
#include "capture.hpp"

using namespace hiphost;

namespace {

bool valid_mode(hipStreamCaptureMode mode) {
  const int value = static_cast<int>(mode);
  return value >= hipStreamCaptureModeGlobal && value <= hipStreamCaptureModeRelaxed;
}

hipError_t query_capture(hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id, hipGraph_t* graph,
                         const hipGraphNode_t** dependencies, size_t* count) {
  if (status == nullptr) return hipErrorInvalidValue;
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Stream* target = find_stream(rt, stream);
  if (target == nullptr) return hipErrorContextIsDestroyed;
  if (const hipError_t refused = check_legacy_use(rt, *target, false); refused != hipSuccess) return refused;
  *status = capture_status(*target);
  if (*status != hipStreamCaptureStatusActive) return hipSuccess;
  if (id != nullptr) *id = target->capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<hipGraph_t>(target->capture->graph.get());
  // A node's handle is its address, so the stream's own list serves; valid until the next call on the stream.
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const hipGraphNode_t*>(target->capture_after.data());
  if (count != nullptr) *count = target->capture_after.size();
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  FMHAX_HIP_API({
    if (!valid_mode(mode)) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    return begin_capture(rt, *target, mode, {}, {});
  });
}

hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                        const hipGraphEdgeData* dependencyData, size_t numDependencies,
                                        hipStreamCaptureMode mode) {
  FMHAX_HIP_API({
    if (!valid_mode(mode) || (dependencies == nullptr && numDependencies != 0)) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    Graph* into = rt.graphs.find(graph);
    if (into == nullptr) return hipErrorInvalidValue;
    std::vector<Node*> after;
    if (!find_nodes(rt, *into, dependencies, numDependencies, after)) return hipErrorInvalidValue;
    for (size_t i = 0; dependencyData != nullptr && i < numDependencies; ++i) {
      if (dependencyData[i].type != hipGraphDependencyTypeDefault) return hipErrorNotSupported;
    }
    const hipError_t status = begin_capture(rt, *target, mode, Ref<Graph>(into), std::move(after));
    if (status == hipSuccess) target->capture->into_existing = true;
    return status;
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* pGraph) {
  FMHAX_HIP_API({
    if (pGraph == nullptr) return hipErrorInvalidValue;
    *pGraph = nullptr;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    Ref<Graph> graph;
    const hipError_t status = end_capture(rt, *target, graph);
    if (status == hipSuccess) *pGraph = reinterpret_cast<hipGraph_t>(graph.get());
    return status;
  });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* pCaptureStatus) {
  FMHAX_HIP_API({ return query_capture(stream, pCaptureStatus, nullptr, nullptr, nullptr, nullptr); });
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* pCaptureStatus,
                                   unsigned long long* pId) {
  FMHAX_HIP_API({ return query_capture(stream, pCaptureStatus, pId, nullptr, nullptr, nullptr); });
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* captureStatus_out,
                                      unsigned long long* id_out, hipGraph_t* graph_out,
                                      const hipGraphNode_t** dependencies_out, size_t* numDependencies_out) {
  FMHAX_HIP_API(
      { return query_capture(stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out); });
}

hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t* dependencies, size_t numDependencies,
                                              unsigned int flags) {
  FMHAX_HIP_API({
    if (flags != hipStreamAddCaptureDependencies && flags != hipStreamSetCaptureDependencies) {
      return hipErrorInvalidValue;
    }
    if (dependencies == nullptr && numDependencies != 0) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (!target->capture) return hipErrorIllegalState;
    if (target->capture->invalidated) return hipErrorStreamCaptureInvalidated;
    std::vector<Node*> nodes;
    if (!find_nodes(rt, *target->capture->graph, dependencies, numDependencies, nodes)) return hipErrorInvalidValue;
    if (flags == hipStreamSetCaptureDependencies) {
      std::vector<Node*>& let_go = target->capture->let_go;
      let_go.insert(let_go.end(), target->capture_after.begin(), target->capture_after.end());
      target->capture_after.clear();
    }
    for (Node* node : nodes) {
      std::erase(target->capture_after, node);
      target->capture_after.push_back(node);
    }
    return hipSuccess;
  });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  FMHAX_HIP_API_ANYWHERE({
    if (mode == nullptr || !valid_mode(*mode)) return hipErrorInvalidValue;
    std::swap(*mode, thread_state.capture_mode);
    return hipSuccess;
  });
}

}  // extern "C"
