// Finding a node, in a graph or in an executable, and giving it new work.
#pragma once

#include "api.hpp"
#include "graph_exec.hpp"
#include "graph_params.hpp"

namespace hiphost {

// Finds the node and hands it over if its work is of kind W.
template <class W, class F>
hipError_t with_node(hipGraphNode_t node, F&& body) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Node* target = rt.nodes.find(node);
  if (target == nullptr || !std::holds_alternative<W>(target->work)) return hipErrorInvalidValue;
  return body(rt, *target);
}

// make(rt, out) forms the new work of a graph's node.
template <class W, class F>
hipError_t set_node(hipGraphNode_t node, F&& make) {
  return with_node<W>(node, [&](Runtime& rt, Node& target) -> hipError_t {
    Work work;
    const hipError_t status = make(rt, work);
    if (status == hipSuccess) target.work = std::move(work);
    return status;
  });
}

// make(rt, out) forms the new work of an executable's node.
template <class W, class F>
hipError_t set_exec_node(hipGraphExec_t exec, hipGraphNode_t node, F&& make) {
  return with_node<W>(node, [&](Runtime& rt, Node& source) -> hipError_t {
    Exec* target = rt.execs.find(exec);
    const std::int64_t index = target != nullptr ? target->index_of(source) : -1;
    if (index < 0) return hipErrorInvalidValue;
    Work work;
    if (const hipError_t status = make(rt, work); status != hipSuccess) return status;
    const auto place = static_cast<size_t>(index);
    if (!may_set(rt, *target->nodes[place].work, work)) return hipErrorInvalidValue;
    target->set_work(place, std::move(work));
    return hipSuccess;
  });
}

template <class F>
hipError_t add(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies, size_t count, F&& make) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Work work;
  if (const hipError_t status = make(rt, work); status != hipSuccess) return status;
  return add_node(rt, out, graph, dependencies, count, std::move(work));
}

}  // namespace hiphost
