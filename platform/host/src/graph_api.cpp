#include <algorithm>

#include "api.hpp"
#include "graph.hpp"

using namespace hiphost;

namespace {

hipGraph_t handle_of(Graph* graph) { return reinterpret_cast<hipGraph_t>(graph); }

// Fills the caller's array with up to *count handles; sets *count to how many there are, or were written.
void give_nodes(const std::vector<Node*>& found, hipGraphNode_t* out, size_t* count) {
  if (out != nullptr) {
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) out[i] = i < found.size() ? found[i]->handle() : nullptr;
    *count = std::min(room, found.size());
  } else {
    *count = found.size();
  }
}

// Looks up the ends of edges; an edge given twice counts as wrong.
hipError_t find_edges(Runtime& rt, hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t count,
                      std::vector<std::pair<Node*, Node*>>& out) {
  Graph* target = rt.graphs.find(graph);
  if (target == nullptr) return hipErrorInvalidValue;
  if (count == 0) return hipSuccess;
  const size_t nodes = target->nodes.size();
  if (from == nullptr || to == nullptr || count > nodes * nodes) return hipErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    Node* first = rt.nodes.find(from[i]);
    Node* second = rt.nodes.find(to[i]);
    if (first == nullptr || second == nullptr || first == second) return hipErrorInvalidValue;
    if (!target->contains(*first) || !target->contains(*second)) return hipErrorInvalidValue;
    const std::pair edge(first, second);
    if (std::find(out.begin(), out.end(), edge) != out.end()) return hipErrorInvalidValue;
    out.push_back(edge);
  }
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipGraphCreate(hipGraph_t* pGraph, unsigned int flags) {
  FMHAX_HIP_API({
    if (pGraph == nullptr || flags != 0) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Ref<Graph> graph = make_ref<Graph>(rt);
    register_graph(rt, *graph);
    *pGraph = handle_of(graph.get());
    return hipSuccess;
  });
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Graph* target = rt.graphs.find(graph);
    if (target == nullptr || target->is_child) return hipErrorInvalidValue;
    if (is_capturing(*target)) return hipErrorIllegalState;
    unregister_graph(rt, *target);
    return hipSuccess;
  });
}

hipError_t hipGraphClone(hipGraph_t* pGraphClone, hipGraph_t originalGraph) {
  FMHAX_HIP_API({
    if (pGraphClone == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Graph* original = rt.graphs.find(originalGraph);
    if (original == nullptr) return hipErrorInvalidValue;
    const Ref<Graph> clone = original->clone();
    register_graph(rt, *clone);
    *pGraphClone = handle_of(clone.get());
    return hipSuccess;
  });
}

hipError_t hipGraphNodeFindInClone(hipGraphNode_t* pNode, hipGraphNode_t originalNode, hipGraph_t clonedGraph) {
  FMHAX_HIP_API({
    if (pNode == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Node* original = rt.nodes.find(originalNode);
    const Graph* clone = rt.graphs.find(clonedGraph);
    if (original == nullptr || clone == nullptr) return hipErrorInvalidValue;
    if (clone->cloned_from != original->graph->id) return hipErrorInvalidValue;
    for (const auto& node : clone->nodes) {
      if (node->cloned_from != original->id) continue;
      *pNode = node->handle();
      return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                   size_t numDependencies) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    std::vector<std::pair<Node*, Node*>> edges;
    const hipError_t status = find_edges(rt, graph, from, to, numDependencies, edges);
    if (status != hipSuccess) return status;
    for (const auto& [first, second] : edges) {
      if (has_edge(*first, *second)) return hipErrorInvalidValue;
    }
    for (const auto& [first, second] : edges) add_edge(*first, *second);
    return hipSuccess;
  });
}

hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                      size_t numDependencies) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    std::vector<std::pair<Node*, Node*>> edges;
    const hipError_t status = find_edges(rt, graph, from, to, numDependencies, edges);
    if (status != hipSuccess) return status;
    for (const auto& [first, second] : edges) {
      if (!has_edge(*first, *second)) return hipErrorInvalidValue;
    }
    for (const auto& [first, second] : edges) remove_edge(*first, *second);
    return hipSuccess;
  });
}

hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to, size_t* numEdges) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Graph* target = rt.graphs.find(graph);
    if (target == nullptr || numEdges == nullptr || (from == nullptr) != (to == nullptr)) return hipErrorInvalidValue;
    std::vector<Node*> first, second;
    for (const auto& node : target->nodes) {
      for (Node* dependent : node->after) {
        first.push_back(node.get());
        second.push_back(dependent);
      }
    }
    size_t room = *numEdges;
    give_nodes(first, from, &room);
    give_nodes(second, to, numEdges);
    return hipSuccess;
  });
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* numNodes) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Graph* target = rt.graphs.find(graph);
    if (target == nullptr || numNodes == nullptr) return hipErrorInvalidValue;
    std::vector<Node*> found;
    for (const auto& node : target->nodes) found.push_back(node.get());
    give_nodes(found, nodes, numNodes);
    return hipSuccess;
  });
}

hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* pRootNodes, size_t* pNumRootNodes) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Graph* target = rt.graphs.find(graph);
    if (target == nullptr || pNumRootNodes == nullptr) return hipErrorInvalidValue;
    std::vector<Node*> found;
    for (const auto& node : target->nodes) {
      if (node->before.empty()) found.push_back(node.get());
    }
    give_nodes(found, pRootNodes, pNumRootNodes);
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* pDependencies, size_t* pNumDependencies) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Node* target = rt.nodes.find(node);
    if (target == nullptr || pNumDependencies == nullptr) return hipErrorInvalidValue;
    give_nodes(target->before, pDependencies, pNumDependencies);
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* pDependentNodes,
                                         size_t* pNumDependentNodes) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Node* target = rt.nodes.find(node);
    if (target == nullptr || pNumDependentNodes == nullptr) return hipErrorInvalidValue;
    give_nodes(target->after, pDependentNodes, pNumDependentNodes);
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* pType) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Node* target = rt.nodes.find(node);
    if (target == nullptr || pType == nullptr) return hipErrorInvalidValue;
    *pType = node_type(target->work);
    return hipSuccess;
  });
}

hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Node* target = rt.nodes.find(node);
    if (target == nullptr) return hipErrorInvalidValue;
    if (target->graph->capture != nullptr || (target->child && is_capturing(*target->child))) {
      return hipErrorIllegalState;
    }
    target->graph->remove_node(*target);
    return hipSuccess;
  });
}

}  // extern "C"
