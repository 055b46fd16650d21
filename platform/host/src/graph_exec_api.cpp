#include <algorithm>

#include "api.hpp"
#include "capture.hpp"
#include "graph_exec.hpp"
#include "graph_params.hpp"

using namespace hiphost;

namespace {

constexpr unsigned long long kInstantiateFlags = hipGraphInstantiateFlagAutoFreeOnLaunch |
                                                 hipGraphInstantiateFlagUpload | hipGraphInstantiateFlagDeviceLaunch |
                                                 hipGraphInstantiateFlagUseNodePriority;

hipError_t instantiate(hipGraphExec_t* out, hipGraph_t graph, unsigned long long flags) {
  if (out == nullptr || (flags & ~kInstantiateFlags) != 0) return hipErrorInvalidValue;
  if ((flags & hipGraphInstantiateFlagDeviceLaunch) != 0) return hipErrorNotSupported;
  Runtime& rt = runtime();
  // Should anything fail, what they hold is given up after the lock, which that takes itself.
  Ref<Retained> retained;
  std::unique_ptr<Exec> exec;
  Lock lock(rt.mutex);
  const Graph* source = rt.graphs.find(graph);
  if (source == nullptr) return hipErrorInvalidValue;
  if (is_capturing(*source)) return hipErrorIllegalState;
  std::vector<ExecNode> nodes;
  if (!flatten(*source, {}, nodes)) return hipErrorInvalidValue;
  retained = make_ref<Retained>(rt, *source);
  exec = std::make_unique<Exec>(std::move(nodes), flags, retained);
  *out = rt.execs.add(exec.get());
  (void)exec.release();
  return hipSuccess;
}

// Why the executable can't take the graph's parameters, with the node that shows it; none where the counts differ.
hipGraphExecUpdateResult compare(Runtime& rt, const Exec& exec, const std::vector<ExecNode>& nodes,
                                 std::uint64_t& culprit) {
  culprit = 0;
  if (exec.nodes.size() != nodes.size()) return hipGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExecNode& old_node = exec.nodes[i];
    const ExecNode& new_node = nodes[i];
    culprit = new_node.node_id;
    if (old_node.work->index() != new_node.work->index()) return hipGraphExecUpdateErrorNodeTypeChanged;
    if (old_node.before != new_node.before) return hipGraphExecUpdateErrorTopologyChanged;
    if (!may_replace(rt, *old_node.work, *new_node.work)) {
      return std::holds_alternative<KernelWork>(*new_node.work) ? hipGraphExecUpdateErrorUnsupportedFunctionChange
                                                                : hipGraphExecUpdateErrorParametersChanged;
    }
  }
  culprit = 0;
  return hipGraphExecUpdateSuccess;
}

Node* find_by_id(const Graph& graph, std::uint64_t id) {
  for (const auto& node : graph.nodes) {
    if (node->id == id) return node.get();
    if (!node->child) continue;
    if (Node* inner = find_by_id(*node->child, id)) return inner;
  }
  return nullptr;
}

hipError_t update(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node, hipGraphExecUpdateResult* result) {
  if (error_node == nullptr || result == nullptr) return hipErrorInvalidValue;
  *error_node = nullptr;
  *result = hipGraphExecUpdateError;
  Runtime& rt = runtime();
  Ref<Retained> retained;  // what it holds in the end is given up after the lock
  Lock lock(rt.mutex);
  Exec* target = rt.execs.find(exec);
  const Graph* source = rt.graphs.find(graph);
  if (target == nullptr || source == nullptr) return hipErrorInvalidValue;
  std::vector<ExecNode> nodes;
  if (is_capturing(*source) || !flatten(*source, {}, nodes)) return hipErrorGraphExecUpdateFailure;
  std::uint64_t culprit = 0;
  *result = compare(rt, *target, nodes, culprit);
  if (*result != hipGraphExecUpdateSuccess) {
    if (Node* node = find_by_id(*source, culprit)) *error_node = node->handle();
    return hipErrorGraphExecUpdateFailure;
  }
  retained = make_ref<Retained>(rt, *source);
  target->add_ids(nodes);
  for (size_t i = 0; i < nodes.size(); ++i) target->nodes[i].work = nodes[i].work;
  ++target->version;
  std::swap(target->retained, retained);
  return hipSuccess;
}

hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Exec* target = rt.execs.find(exec);
  if (target == nullptr) return hipErrorInvalidValue;
  Stream* on = find_stream(rt, stream);
  if (on == nullptr) return hipErrorContextIsDestroyed;
  if (!on->capture) {
    if (const hipError_t refused = check_legacy_use(rt, *on); refused != hipSuccess) return refused;
    return target->launch(*on);
  }
  Node* node = nullptr;
  if (const hipError_t status = capture_work(rt, *on, ChildWork{}, &node); status != hipSuccess) return status;
  node->child = target->to_graph(rt);
  node->child->is_child = true;
  register_graph(rt, *node->child);
  return hipSuccess;
}

// The executable's node for a graph's node of a kind that can be switched off.
hipError_t find_switchable(Runtime& rt, hipGraphExec_t exec, hipGraphNode_t node, Exec*& target, ExecNode*& out) {
  target = rt.execs.find(exec);
  const Node* source = rt.nodes.find(node);
  if (target == nullptr || source == nullptr) return hipErrorInvalidValue;
  const std::int64_t index = target->index_of(*source);
  if (index < 0) return hipErrorInvalidValue;
  out = &target->nodes[static_cast<size_t>(index)];
  const hipGraphNodeType type = node_type(*out->work);
  const bool switchable =
      type == hipGraphNodeTypeKernel || type == hipGraphNodeTypeMemcpy || type == hipGraphNodeTypeMemset;
  return switchable ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace

extern "C" {

hipError_t hipGraphInstantiate(hipGraphExec_t* pGraphExec, hipGraph_t graph, hipGraphNode_t* pErrorNode,
                               char* pLogBuffer, size_t bufferSize) {
  FMHAX_HIP_API({
    if (pErrorNode != nullptr) *pErrorNode = nullptr;
    if (pLogBuffer != nullptr && bufferSize != 0) *pLogBuffer = '\0';
    return instantiate(pGraphExec, graph, 0);
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* pGraphExec, hipGraph_t graph, unsigned long long flags) {
  FMHAX_HIP_API({ return instantiate(pGraphExec, graph, flags); });
}

hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* pGraphExec, hipGraph_t graph,
                                         hipGraphInstantiateParams* instantiateParams) {
  FMHAX_HIP_API({
    if (instantiateParams == nullptr) return hipErrorInvalidValue;
    instantiateParams->errNode_out = nullptr;
    const hipError_t status = instantiate(pGraphExec, graph, instantiateParams->flags);
    instantiateParams->result_out = status == hipSuccess             ? hipGraphInstantiateSuccess
                                    : status == hipErrorNotSupported ? hipGraphInstantiateNodeOperationNotSupported
                                                                     : hipGraphInstantiateInvalidStructure;
    return status;
  });
}

hipError_t hipGraphExecGetFlags(hipGraphExec_t graphExec, unsigned long long* flags) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Exec* target = rt.execs.find(graphExec);
    if (target == nullptr || flags == nullptr) return hipErrorInvalidValue;
    *flags = target->flags;
    return hipSuccess;
  });
}

hipError_t hipGraphUpload(hipGraphExec_t graphExec, hipStream_t stream) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    if (rt.execs.find(graphExec) == nullptr) return hipErrorInvalidValue;
    return find_stream(rt, stream) != nullptr ? hipSuccess : hipErrorContextIsDestroyed;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t graphExec, hipStream_t stream) {
  FMHAX_HIP_API({ return launch(graphExec, stream); });
}

hipError_t hipGraphExecUpdate(hipGraphExec_t hGraphExec, hipGraph_t hGraph, hipGraphNode_t* hErrorNode_out,
                              hipGraphExecUpdateResult* updateResult_out) {
  FMHAX_HIP_API({ return update(hGraphExec, hGraph, hErrorNode_out, updateResult_out); });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t graphExec) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    std::unique_ptr<Exec> destroyed;  // after the lock; a launch in flight keeps what it needs
    Lock lock(rt.mutex);
    destroyed.reset(rt.execs.find(graphExec));
    if (!destroyed) return hipErrorInvalidValue;
    rt.execs.remove(destroyed.get());
    return hipSuccess;
  });
}

hipError_t hipGraphNodeSetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int isEnabled) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Exec* target = nullptr;
    ExecNode* node = nullptr;
    if (const hipError_t status = find_switchable(rt, hGraphExec, hNode, target, node); status != hipSuccess) {
      return status;
    }
    node->enabled = isEnabled != 0;
    ++target->version;
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int* isEnabled) {
  FMHAX_HIP_API({
    if (isEnabled == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Exec* target = nullptr;
    ExecNode* node = nullptr;
    if (const hipError_t status = find_switchable(rt, hGraphExec, hNode, target, node); status != hipSuccess) {
      return status;
    }
    *isEnabled = node->enabled ? 1 : 0;
    return hipSuccess;
  });
}

}  // extern "C"
