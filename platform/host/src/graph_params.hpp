// Parameters of nodes as HIP's structs describe them, checked and turned into work.
#pragma once

#include <hip/hip_runtime_api.h>

#include "graph.hpp"
#include "runtime.hpp"

namespace hiphost {

// Each leaves `out` alone unless it returns hipSuccess. Need the runtime's lock where they take events or graphs.
hipError_t kernel_work(const hipKernelNodeParams* params, Work& out);
hipError_t memcpy_work(Runtime& rt, const hipMemcpy3DParms* params, Work& out);
hipError_t memcpy_work(Runtime& rt, void* dst, const void* src, size_t count, hipMemcpyKind kind, Work& out);
hipError_t memset_work(Runtime& rt, const hipMemsetParams* params, Work& out);
hipError_t host_work(const hipHostNodeParams* params, Work& out);
hipError_t event_work(Runtime& rt, hipEvent_t event, bool record, Work& out);
// Any of the above but child graphs, by the type in the params.
hipError_t any_work(Runtime& rt, const hipGraphNodeParams* params, Work& out);

hipKernelNodeParams kernel_params(Node& node);
hipMemsetParams memset_params(const SetWork& work);

// Whether an executable may take new work for a node: the same kind of node, and for copies, sets and kernels the same
// direction, dimension and device.
bool may_replace(Runtime& rt, const Work& old_work, const Work& new_work);
// The same for work that is set node by node, where HIP wants a copy's kind spelled as it was: hipMemcpyDefault in
// place of what it stands for is refused.
bool may_set(Runtime& rt, const Work& old_work, const Work& new_work);

hipError_t add_node(Runtime& rt, hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies,
                    size_t count, Work&& work);
hipError_t add_child_node(Runtime& rt, hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies,
                          size_t count, hipGraph_t child);

}  // namespace hiphost
