// Graphs, executables and user objects.
#ifndef FMHAX_NVIDIA_HIP_GRAPH_H
#define FMHAX_NVIDIA_HIP_GRAPH_H

#include <hip/nvidia/stream.h>

typedef cudaGraph_t hipGraph_t;
typedef cudaGraphNode_t hipGraphNode_t;
typedef cudaGraphExec_t hipGraphExec_t;
typedef cudaUserObject_t hipUserObject_t;

typedef enum cudaGraphNodeType hipGraphNodeType;
FMHAX_HIP_CONSTANT(hipGraphNodeType, hipGraphNodeTypeKernel, cudaGraphNodeTypeKernel);
FMHAX_HIP_CONSTANT(hipGraphNodeType, hipGraphNodeTypeMemcpy, cudaGraphNodeTypeMemcpy);
FMHAX_HIP_CONSTANT(hipGraphNodeType, hipGraphNodeTypeMemset, cudaGraphNodeTypeMemset);
FMHAX_HIP_CONSTANT(hipGraphNodeType, hipGraphNodeTypeHost, cudaGraphNodeTypeHost);

FMHAX_HIP_CONSTANT(unsigned int, hipUserObjectNoDestructorSync, cudaUserObjectNoDestructorSync);
FMHAX_HIP_CONSTANT(unsigned int, hipGraphUserObjectMove, cudaGraphUserObjectMove);

FMHAX_HIP_CALL hipError_t hipGraphCreate(hipGraph_t* pGraph, unsigned int flags) {
  return cudaGraphCreate(pGraph, flags);
}
FMHAX_HIP_CALL hipError_t hipGraphDestroy(hipGraph_t graph) { return cudaGraphDestroy(graph); }
FMHAX_HIP_CALL hipError_t hipGraphClone(hipGraph_t* pGraphClone, hipGraph_t originalGraph) {
  return cudaGraphClone(pGraphClone, originalGraph);
}
FMHAX_HIP_CALL hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* numNodes) {
  return cudaGraphGetNodes(graph, nodes, numNodes);
}
FMHAX_HIP_CALL hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* pType) {
  return cudaGraphNodeGetType(node, pType);
}
FMHAX_HIP_CALL hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to,
                                           size_t* numEdges) {
#if CUDART_VERSION >= 13000
  return cudaGraphGetEdges(graph, from, to, NULL, numEdges);
#else
  return cudaGraphGetEdges(graph, from, to, numEdges);
#endif
}
FMHAX_HIP_CALL hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                  const hipGraphNode_t* to, size_t numDependencies) {
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, from, to, NULL, numDependencies);
#else
  return cudaGraphAddDependencies(graph, from, to, numDependencies);
#endif
}

// The node that can't be instantiated comes back in pErrorNode; the log stays empty.
FMHAX_HIP_CALL hipError_t hipGraphInstantiate(hipGraphExec_t* pGraphExec, hipGraph_t graph, hipGraphNode_t* pErrorNode,
                                              char* pLogBuffer, size_t bufferSize) {
  cudaGraphInstantiateParams params;
  params.flags = 0;
  params.uploadStream = NULL;
  params.errNode_out = NULL;
  params.result_out = cudaGraphInstantiateSuccess;
  const cudaError_t error = cudaGraphInstantiateWithParams(pGraphExec, graph, &params);
  if (pErrorNode != NULL) *pErrorNode = params.errNode_out;
  if (pLogBuffer != NULL && bufferSize > 0) *pLogBuffer = '\0';
  return error;
}
FMHAX_HIP_CALL hipError_t hipGraphLaunch(hipGraphExec_t graphExec, hipStream_t stream) {
  return cudaGraphLaunch(graphExec, stream);
}
FMHAX_HIP_CALL hipError_t hipGraphExecDestroy(hipGraphExec_t graphExec) { return cudaGraphExecDestroy(graphExec); }

FMHAX_HIP_CALL hipError_t hipUserObjectCreate(hipUserObject_t* object_out, void* ptr, hipHostFn_t destroy,
                                              unsigned int initialRefcount, unsigned int flags) {
  return cudaUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags);
}
FMHAX_HIP_CALL hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count FMHAX_HIP_DEFAULT(1)) {
  return cudaUserObjectRelease(object, count);
}
FMHAX_HIP_CALL hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object,
                                                   unsigned int count FMHAX_HIP_DEFAULT(1),
                                                   unsigned int flags FMHAX_HIP_DEFAULT(0)) {
  return cudaGraphRetainUserObject(graph, object, count, flags);
}

#endif
