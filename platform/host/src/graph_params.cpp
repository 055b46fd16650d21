#include "graph_params.hpp"

#include <algorithm>

#include "copy.hpp"
#include "kernel_params.hpp"

namespace hiphost {
namespace {

int device_of(const Runtime& rt, const void* pointer) {
  const auto range = rt.memory.find(pointer);
  return range ? range->device : 0;
}

// Whether a copy of one row reads bytes that it writes.
bool overlaps_itself(const CopyWork& work) {
  const auto dst = reinterpret_cast<std::uintptr_t>(work.dst), src = reinterpret_cast<std::uintptr_t>(work.src);
  return dst < src + work.width && src < dst + work.width;
}

// The graph that gets a node, with the nodes that it depends on.
hipError_t find_place(Runtime& rt, hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies,
                      size_t count, Graph*& target, std::vector<Node*>& before) {
  if (out == nullptr) return hipErrorInvalidValue;
  target = rt.graphs.find(graph);
  if (target == nullptr || !find_nodes(rt, *target, dependencies, count, before)) return hipErrorInvalidValue;
  return hipSuccess;
}

}  // namespace

hipError_t kernel_work(const hipKernelNodeParams* params, Work& out) {
  if (params == nullptr) return hipErrorInvalidValue;
  if (params->func == nullptr) return hipErrorInvalidValue;
  KernelWork work;
  work.device = thread_state.device;
  const hipError_t status = make_kernel_work(params->func, params->gridDim, params->blockDim, params->kernelParams,
                                             params->extra, params->sharedMemBytes, work);
  if (status == hipSuccess) out = std::move(work);
  return status;
}

hipError_t memcpy_work(Runtime& rt, const hipMemcpy3DParms* params, Work& out) {
  CopyWork work;
  if (const hipError_t status = copy_from_params(params, work); status != hipSuccess) return status;
  if (moves_nothing(work)) return hipErrorInvalidValue;
  if (const hipError_t status = check_copy(rt, work); status != hipSuccess) return status;
  out = work;
  return hipSuccess;
}

hipError_t memcpy_work(Runtime& rt, void* dst, const void* src, size_t count, hipMemcpyKind kind, Work& out) {
  if (dst == nullptr || src == nullptr || count == 0) return hipErrorInvalidValue;
  const CopyWork work = linear_copy(dst, src, count, kind);
  if (const hipError_t status = check_copy(rt, work); status != hipSuccess) return status;
  // Only here, as in ROCm: an eager copy may be one between two names of mapped memory, and boxes may interleave.
  if (overlaps_itself(work)) return hipErrorInvalidValue;
  out = work;
  return hipSuccess;
}

hipError_t memset_work(Runtime& rt, const hipMemsetParams* params, Work& out) {
  if (params == nullptr) return hipErrorInvalidValue;
  SetWork work;
  work.dst = params->dst;
  work.pitch = params->pitch;
  work.value = params->value;
  work.element_size = params->elementSize;
  work.width = params->width;
  work.height = params->height;
  if (sets_nothing(work)) return hipErrorInvalidValue;
  if (const hipError_t status = check_set(rt, work); status != hipSuccess) return status;
  out = work;
  return hipSuccess;
}

hipError_t host_work(const hipHostNodeParams* params, Work& out) {
  if (params == nullptr || params->fn == nullptr) return hipErrorInvalidValue;
  out = HostWork{params->fn, params->userData};
  return hipSuccess;
}

hipError_t event_work(Runtime& rt, hipEvent_t event, bool record, Work& out) {
  Event* target = rt.events.find(event);
  if (target == nullptr) return hipErrorInvalidValue;
  if (record) {
    out = RecordWork{Ref<Event>(target)};
  } else {
    out = WaitWork{Ref<Event>(target)};
  }
  return hipSuccess;
}

hipError_t any_work(Runtime& rt, const hipGraphNodeParams* params, Work& out) {
  if (params == nullptr) return hipErrorInvalidValue;
  switch (params->type) {
    case hipGraphNodeTypeKernel:
      return kernel_work(&params->kernel, out);
    case hipGraphNodeTypeMemcpy:
      return memcpy_work(rt, &params->memcpy.copyParams, out);
    case hipGraphNodeTypeMemset:
      return memset_work(rt, &params->memset, out);
    case hipGraphNodeTypeHost:
      return host_work(&params->host, out);
    case hipGraphNodeTypeEmpty:
      out = EmptyWork{};
      return hipSuccess;
    case hipGraphNodeTypeWaitEvent:
      return event_work(rt, params->eventWait.event, false, out);
    case hipGraphNodeTypeEventRecord:
      return event_work(rt, params->eventRecord.event, true, out);
    case hipGraphNodeTypeExtSemaphoreSignal:
    case hipGraphNodeTypeExtSemaphoreWait:
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree:
    case hipGraphNodeTypeMemcpyFromSymbol:
    case hipGraphNodeTypeMemcpyToSymbol:
      return hipErrorNotSupported;
    default:
      return hipErrorInvalidValue;
  }
}

hipKernelNodeParams kernel_params(Node& node) {
  auto& work = std::get<KernelWork>(node.work);
  node.kernel_args.clear();
  for (const std::size_t offset : work.kernel->offsets) node.kernel_args.push_back(work.args.data() + offset);
  hipKernelNodeParams params{};
  params.func = const_cast<void*>(work.kernel->function);
  params.gridDim = work.grid;
  params.blockDim = work.block;
  params.sharedMemBytes = static_cast<unsigned>(work.shared_bytes);
  params.kernelParams = node.kernel_args.data();
  return params;
}

hipMemsetParams memset_params(const SetWork& work) {
  hipMemsetParams params{};
  params.dst = work.dst;
  params.elementSize = work.element_size;
  params.height = work.height;
  params.pitch = work.pitch;
  params.value = work.value;
  params.width = work.width;
  return params;
}

bool may_replace(Runtime& rt, const Work& old_work, const Work& new_work) {
  if (old_work.index() != new_work.index()) return false;
  if (const auto* now = std::get_if<CopyWork>(&new_work)) {
    const auto& before = std::get<CopyWork>(old_work);
    return copy_direction(rt, before) == copy_direction(rt, *now);
  }
  if (const auto* now = std::get_if<KernelWork>(&new_work)) {
    return std::get<KernelWork>(old_work).device == now->device;
  }
  if (const auto* now = std::get_if<SetWork>(&new_work)) {
    const auto& before = std::get<SetWork>(old_work);
    return before.height == 1 && now->height == 1 && device_of(rt, before.dst) == device_of(rt, now->dst);
  }
  return true;
}

bool may_set(Runtime& rt, const Work& old_work, const Work& new_work) {
  if (!may_replace(rt, old_work, new_work)) return false;
  const auto* now = std::get_if<CopyWork>(&new_work);
  return now == nullptr || now->kind == std::get<CopyWork>(old_work).kind;
}

hipError_t add_node(Runtime& rt, hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies,
                    size_t count, Work&& work) {
  Graph* target = nullptr;
  std::vector<Node*> before;
  const hipError_t status = find_place(rt, out, graph, dependencies, count, target, before);
  if (status == hipSuccess) *out = target->add_node(std::move(work), before).handle();
  return status;
}

hipError_t add_child_node(Runtime& rt, hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* dependencies,
                          size_t count, hipGraph_t child) {
  Graph* target = nullptr;
  std::vector<Node*> before;
  const hipError_t status = find_place(rt, out, graph, dependencies, count, target, before);
  if (status != hipSuccess) return status;
  const Graph* original = rt.graphs.find(child);
  if (original == nullptr) return hipErrorInvalidValue;
  Ref<Graph> copy = original->clone();
  copy->is_child = true;
  register_graph(rt, *copy);
  Node& node = target->add_node(ChildWork{}, before);
  node.child = std::move(copy);
  *out = node.handle();
  return hipSuccess;
}

}  // namespace hiphost
