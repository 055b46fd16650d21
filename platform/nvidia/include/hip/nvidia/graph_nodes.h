// Graph nodes by kind: adding them, changing their parameters in a graph or in an executable.
#ifndef FMHAX_NVIDIA_HIP_GRAPH_NODES_H
#define FMHAX_NVIDIA_HIP_GRAPH_NODES_H

#include <hip/nvidia/graph.h>
#include <hip/nvidia/memory.h>

typedef struct cudaKernelNodeParams hipKernelNodeParams;
typedef struct cudaMemsetParams hipMemsetParams;
typedef struct cudaHostNodeParams hipHostNodeParams;

FMHAX_HIP_CALL hipError_t hipGraphAddKernelNode(hipGraphNode_t* pGraphNode, hipGraph_t graph,
                                                const hipGraphNode_t* pDependencies, size_t numDependencies,
                                                const hipKernelNodeParams* pNodeParams) {
  return cudaGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, pNodeParams);
}
FMHAX_HIP_CALL hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* pNodeParams) {
  return cudaGraphKernelNodeSetParams(node, pNodeParams);
}
FMHAX_HIP_CALL hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                                          const hipKernelNodeParams* pNodeParams) {
  return cudaGraphExecKernelNodeSetParams(hGraphExec, node, pNodeParams);
}

FMHAX_HIP_CALL hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* pGraphNode, hipGraph_t graph,
                                                  const hipGraphNode_t* pDependencies, size_t numDependencies,
                                                  void* dst, const void* src, size_t count, hipMemcpyKind kind) {
  return cudaGraphAddMemcpyNode1D(pGraphNode, graph, pDependencies, numDependencies, dst, src, count, kind);
}
FMHAX_HIP_CALL hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src, size_t count,
                                                        hipMemcpyKind kind) {
  return cudaGraphMemcpyNodeSetParams1D(node, dst, src, count, kind);
}
FMHAX_HIP_CALL hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t hGraphExec, hipGraphNode_t node, void* dst,
                                                            const void* src, size_t count, hipMemcpyKind kind) {
  return cudaGraphExecMemcpyNodeSetParams1D(hGraphExec, node, dst, src, count, kind);
}

FMHAX_HIP_CALL hipError_t hipGraphAddMemsetNode(hipGraphNode_t* pGraphNode, hipGraph_t graph,
                                                const hipGraphNode_t* pDependencies, size_t numDependencies,
                                                const hipMemsetParams* pMemsetParams) {
  return cudaGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams);
}
FMHAX_HIP_CALL hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* pNodeParams) {
  return cudaGraphMemsetNodeSetParams(node, pNodeParams);
}
FMHAX_HIP_CALL hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                                          const hipMemsetParams* pNodeParams) {
  return cudaGraphExecMemsetNodeSetParams(hGraphExec, node, pNodeParams);
}

FMHAX_HIP_CALL hipError_t hipGraphAddHostNode(hipGraphNode_t* pGraphNode, hipGraph_t graph,
                                              const hipGraphNode_t* pDependencies, size_t numDependencies,
                                              const hipHostNodeParams* pNodeParams) {
  return cudaGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies, pNodeParams);
}
FMHAX_HIP_CALL hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* pNodeParams) {
  return cudaGraphHostNodeSetParams(node, pNodeParams);
}
FMHAX_HIP_CALL hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                                        const hipHostNodeParams* pNodeParams) {
  return cudaGraphExecHostNodeSetParams(hGraphExec, node, pNodeParams);
}

FMHAX_HIP_CALL hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* pGraphNode, hipGraph_t graph,
                                                    const hipGraphNode_t* pDependencies, size_t numDependencies,
                                                    hipGraph_t childGraph) {
  return cudaGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph);
}

#endif
