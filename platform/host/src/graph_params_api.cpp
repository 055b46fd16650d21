#include "copy.hpp"
#include "graph_node_access.hpp"

using namespace hiphost;

extern "C" {

hipError_t hipGraphAddKernelNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                 size_t numDependencies, const hipKernelNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime&, Work& out) { return kernel_work(pNodeParams, out); });
  });
}

hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    if (pNodeParams == nullptr) return hipErrorInvalidValue;
    return with_node<KernelWork>(node, [&](Runtime&, Node& target) {
      *pNodeParams = kernel_params(target);
      return hipSuccess;
    });
  });
}

hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* pNodeParams) {
  FMHAX_HIP_API(
      { return set_node<KernelWork>(node, [&](Runtime&, Work& out) { return kernel_work(pNodeParams, out); }); });
}

hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           const hipKernelNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    return set_exec_node<KernelWork>(hGraphExec, node,
                                     [&](Runtime&, Work& out) { return kernel_work(pNodeParams, out); });
  });
}

hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                 size_t numDependencies, const hipMemcpy3DParms* pCopyParams) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return memcpy_work(rt, pCopyParams, out); });
  });
}

hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* pNodeParams) {
  FMHAX_HIP_API({
    if (pNodeParams == nullptr) return hipErrorInvalidValue;
    return with_node<CopyWork>(node, [&](Runtime&, Node& target) {
      *pNodeParams = params_from_copy(std::get<CopyWork>(target.work));
      return hipSuccess;
    });
  });
}

hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* pNodeParams) {
  FMHAX_HIP_API(
      { return set_node<CopyWork>(node, [&](Runtime& rt, Work& out) { return memcpy_work(rt, pNodeParams, out); }); });
}

hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           hipMemcpy3DParms* pNodeParams) {
  FMHAX_HIP_API({
    return set_exec_node<CopyWork>(hGraphExec, node,
                                   [&](Runtime& rt, Work& out) { return memcpy_work(rt, pNodeParams, out); });
  });
}

hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                   size_t numDependencies, void* dst, const void* src, size_t count,
                                   hipMemcpyKind kind) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return memcpy_work(rt, dst, src, count, kind, out); });
  });
}

hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src, size_t count,
                                         hipMemcpyKind kind) {
  FMHAX_HIP_API({
    return set_node<CopyWork>(node,
                              [&](Runtime& rt, Work& out) { return memcpy_work(rt, dst, src, count, kind, out); });
  });
}

hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t hGraphExec, hipGraphNode_t node, void* dst, const void* src,
                                             size_t count, hipMemcpyKind kind) {
  FMHAX_HIP_API({
    return set_exec_node<CopyWork>(hGraphExec, node,
                                   [&](Runtime& rt, Work& out) { return memcpy_work(rt, dst, src, count, kind, out); });
  });
}

hipError_t hipGraphAddMemsetNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                                 size_t numDependencies, const hipMemsetParams* pMemsetParams) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime& rt, Work& out) { return memset_work(rt, pMemsetParams, out); });
  });
}

hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* pNodeParams) {
  FMHAX_HIP_API({
    if (pNodeParams == nullptr) return hipErrorInvalidValue;
    return with_node<SetWork>(node, [&](Runtime&, Node& target) {
      *pNodeParams = memset_params(std::get<SetWork>(target.work));
      return hipSuccess;
    });
  });
}

hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* pNodeParams) {
  FMHAX_HIP_API(
      { return set_node<SetWork>(node, [&](Runtime& rt, Work& out) { return memset_work(rt, pNodeParams, out); }); });
}

hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           const hipMemsetParams* pNodeParams) {
  FMHAX_HIP_API({
    return set_exec_node<SetWork>(hGraphExec, node,
                                  [&](Runtime& rt, Work& out) { return memset_work(rt, pNodeParams, out); });
  });
}

hipError_t hipGraphAddHostNode(hipGraphNode_t* pGraphNode, hipGraph_t graph, const hipGraphNode_t* pDependencies,
                               size_t numDependencies, const hipHostNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    return add(pGraphNode, graph, pDependencies, numDependencies,
               [&](Runtime&, Work& out) { return host_work(pNodeParams, out); });
  });
}

hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    if (pNodeParams == nullptr) return hipErrorInvalidValue;
    return with_node<HostWork>(node, [&](Runtime&, Node& target) {
      *pNodeParams = hipHostNodeParams{std::get<HostWork>(target.work).function, std::get<HostWork>(target.work).data};
      return hipSuccess;
    });
  });
}

hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* pNodeParams) {
  FMHAX_HIP_API({ return set_node<HostWork>(node, [&](Runtime&, Work& out) { return host_work(pNodeParams, out); }); });
}

hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                         const hipHostNodeParams* pNodeParams) {
  FMHAX_HIP_API({
    return set_exec_node<HostWork>(hGraphExec, node, [&](Runtime&, Work& out) { return host_work(pNodeParams, out); });
  });
}

}  // extern "C"
