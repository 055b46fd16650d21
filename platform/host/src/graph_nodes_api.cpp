#include <algorithm>

#include "graph_node_access.hpp"

using namespace hiphost;

namespace {

hipError_t set_exec_child(hipGraphExec_t exec, hipGraphNode_t node, hipGraph_t child) {
  return with_node<ChildWork>(node, [&](Runtime& rt, Node& source) -> hipError_t {
    Exec* target = rt.execs.find(exec);
    const Graph* graph = rt.graphs.find(child);
    const std::int64_t index = target != nullptr ? target->index_of(source) : -1;
    if (graph == nullptr || index < 0) return hipErrorInvalidValue;
    const auto end = static_cast<size_t>(index);
    const ExecNode& marker = target->nodes[end];
    const std::size_t first = marker.first_of_child;
    // Flattened at the same place, an equal graph gives equal indices.
    std::vector<ExecNode> nodes(first);
    std::vector<std::uint32_t> entry;
    for (const Node* dependency : source.before) {
      entry.push_back(static_cast<std::uint32_t>(target->index_of(*dependency)));
    }
    std::sort(entry.begin(), entry.end());
    if (!flatten(*graph, entry, nodes) || nodes.size() != end) return hipErrorInvalidValue;
    for (std::size_t i = first; i < end; ++i) {
      if (nodes[i].before != target->nodes[i].before) return hipErrorInvalidValue;
      if (!may_replace(rt, *target->nodes[i].work, *nodes[i].work)) return hipErrorInvalidValue;
    }
    for (std::size_t i = first; i < end; ++i) target->nodes[i].work = nodes[i].work;
    target->retained->add(*graph);
    ++target->version;
    return hipSuccess;
  });
}

}  // namespace

extern "C" {

hipError_t hipGraphAddEmptyNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                size_t numDependencies) {
  FMHAX_HIP_API(
      { return add(pGraphNode, graph, pDependencies, numDependencies, [](Runtime&, Work&) { return hipSuccess; }); });
}

hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                     size_t numDependencies, hipGraph_t childGraph) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    return add_child_node(rt, pGraphNode, graph, pDependencies, numDependencies, childGraph);
  });
}

hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* pGraph) {
  FMHAX_HIP_API({
    if (pGraph == nullptr) return hipErrorInvalidValue;
    return with_node<ChildWork>(node, [&](Runtime&, Node& target) {
      *pGraph = reinterpret_cast<hipGraph_t>(target.child.get());
      return hipSuccess;
    });
  });
}

hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node, hipGraph_t childGraph) {
  FMHAX_HIP_API({ return set_exec_child(hGraphExec, node, childGraph); });
}

hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                      size_t numDependencies, hipEvent_t event) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return event_work(rt, event, true, out); });
  });
}

hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* event_out) {
  FMHAX_HIP_API({
    if (event_out == nullptr) return hipErrorInvalidValue;
    return with_node<RecordWork>(node, [&](Runtime&, Node& target) {
      *event_out = reinterpret_cast<hipEvent_t>(std::get<RecordWork>(target.work).event.get());
      return hipSuccess;
    });
  });
}

hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  FMHAX_HIP_API(
      { return set_node<RecordWork>(node, [&](Runtime& rt, Work& out) { return event_work(rt, event, true, out); }); });
}

hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
  FMHAX_HIP_API({
    return set_exec_node<RecordWork>(hGraphExec, hNode,
                                     [&](Runtime& rt, Work& out) { return event_work(rt, event, true, out); });
  });
}

hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                    size_t numDependencies, hipEvent_t event) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return event_work(rt, event, false, out); });
  });
}

hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* event_out) {
  FMHAX_HIP_API({
    if (event_out == nullptr) return hipErrorInvalidValue;
    return with_node<WaitWork>(node, [&](Runtime&, Node& target) {
      *event_out = reinterpret_cast<hipEvent_t>(std::get<WaitWork>(target.work).event.get());
      return hipSuccess;
    });
  });
}

hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  FMHAX_HIP_API(
      { return set_node<WaitWork>(node, [&](Runtime& rt, Work& out) { return event_work(rt, event, false, out); }); });
}

hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
  FMHAX_HIP_API({
    return set_exec_node<WaitWork>(hGraphExec, hNode,
                                   [&](Runtime& rt, Work& out) { return event_work(rt, event, false, out); });
  });
}

hipError_t hipGraphAddNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                           size_t numDependencies, hipGraphNodeParams* nodeParams) {
  FMHAX_HIP_API({
    if (nodeParams != nullptr && nodeParams->type == hipGraphNodeTypeGraph) {
      Runtime& rt = runtime();
      Lock lock(rt.mutex);
      return add_child_node(rt, pGraphNode, graph, pDependencies, numDependencies, nodeParams->graph.graph);
    }
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return any_work(rt, nodeParams, out); });
  });
}

hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams* nodeParams) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Node* target = rt.nodes.find(node);
    if (target == nullptr || nodeParams == nullptr) return hipErrorInvalidValue;
    if (nodeParams->type == hipGraphNodeTypeGraph) return hipErrorNotSupported;
    Work work;
    if (const hipError_t status = any_work(rt, nodeParams, work); status != hipSuccess) return status;
    if (work.index() != target->work.index()) return hipErrorInvalidValue;
    target->work = std::move(work);
    return hipSuccess;
  });
}

hipError_t hipGraphExecNodeSetParams(hipGraphExec_t graphExec, hipGraphNode_t node, hipGraphNodeParams* nodeParams) {
  FMHAX_HIP_API({
    if (nodeParams == nullptr) return hipErrorInvalidValue;
    if (nodeParams->type == hipGraphNodeTypeGraph) return set_exec_child(graphExec, node, nodeParams->graph.graph);
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Exec* target = rt.execs.find(graphExec);
    const Node* source = rt.nodes.find(node);
    if (target == nullptr || source == nullptr) return hipErrorInvalidValue;
    const std::int64_t index = target->index_of(*source);
    if (index < 0) return hipErrorInvalidValue;
    Work work;
    if (const hipError_t status = any_work(rt, nodeParams, work); status != hipSuccess) return status;
    const auto place = static_cast<size_t>(index);
    if (!may_set(rt, *target->nodes[place].work, work)) return hipErrorInvalidValue;
    target->set_work(place, std::move(work));
    return hipSuccess;
  });
}

}  // extern "C"
