#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

hipMemsetParams parameters_of(const SetNode& set) {
  hipMemsetParams params{};
  params.dst = set.destination;
  params.elementSize = sizeof(std::uint32_t);
  params.width = set.words;
  params.height = 1;
  params.value = set.value;
  return params;
}

hipHostNodeParams parameters_of(const HostNode& host) {
  hipHostNodeParams params{};
  params.fn = host.function;
  params.userData = host.user_data;
  return params;
}

/// A kernel's parameters with the array of argument pointers that they refer to.
struct KernelParameters {
  explicit KernelParameters(const KernelLaunch& launch) {
    for (std::uint32_t i = 0; i < launch.argument_count; ++i) {
      // HIP takes pointers to mutable arguments and only reads them.
      arguments[i] = const_cast<unsigned char*>(launch.arguments + launch.argument_offset[i]);
    }
    params.func = const_cast<void*>(launch.function);
    params.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
    params.blockDim = dim3(launch.block[0], launch.block[1], launch.block[2]);
    params.sharedMemBytes = launch.shared_bytes;
    params.kernelParams = arguments.data();
  }
  KernelParameters(const KernelParameters&) = delete;
  KernelParameters& operator=(const KernelParameters&) = delete;

  std::array<void*, KernelLaunch::kMaxArguments> arguments{};
  hipKernelNodeParams params{};
};

struct AddNode {
  hipGraph_t graph;
  const hipGraphNode_t* dependencies;
  std::size_t dependency_count;

  hipGraphNode_t operator()(std::monostate) const { return nullptr; }
  hipGraphNode_t operator()(const SetNode& set) const {
    const hipMemsetParams params = parameters_of(set);
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddMemsetNode, &node, graph, dependencies, dependency_count, &params);
    return node;
  }
  hipGraphNode_t operator()(const CopyNode& copy) const {
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddMemcpyNode1D, &node, graph, dependencies, dependency_count, copy.destination, copy.source,
              copy.bytes, copy.kind);
    return node;
  }
  hipGraphNode_t operator()(const HostNode& host) const {
    const hipHostNodeParams params = parameters_of(host);
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddHostNode, &node, graph, dependencies, dependency_count, &params);
    return node;
  }
  hipGraphNode_t operator()(const KernelNode& kernel) const {
    const KernelParameters parameters(*kernel.launch);
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddKernelNode, &node, graph, dependencies, dependency_count, &parameters.params);
    return node;
  }
};

struct SetParameters {
  hipGraphExec_t executable;
  hipGraphNode_t node;

  hipError_t operator()(std::monostate) const { return hipSuccess; }
  hipError_t operator()(const SetNode& set) const {
    const hipMemsetParams params = parameters_of(set);
    return executable != nullptr ? hipGraphExecMemsetNodeSetParams(executable, node, &params)
                                 : hipGraphMemsetNodeSetParams(node, &params);
  }
  hipError_t operator()(const CopyNode& copy) const {
    return executable != nullptr
               ? hipGraphExecMemcpyNodeSetParams1D(executable, node, copy.destination, copy.source, copy.bytes,
                                                   copy.kind)
               : hipGraphMemcpyNodeSetParams1D(node, copy.destination, copy.source, copy.bytes, copy.kind);
  }
  hipError_t operator()(const HostNode& host) const {
    const hipHostNodeParams params = parameters_of(host);
    return executable != nullptr ? hipGraphExecHostNodeSetParams(executable, node, &params)
                                 : hipGraphHostNodeSetParams(node, &params);
  }
  hipError_t operator()(const KernelNode& kernel) const {
    const KernelParameters parameters(*kernel.launch);
    return executable != nullptr ? hipGraphExecKernelNodeSetParams(executable, node, &parameters.params)
                                 : hipGraphKernelNodeSetParams(node, &parameters.params);
  }
};

}  // namespace

AddedNodes add_to_graph(const NodeList& list, hipGraph_t graph, std::span<const hipGraphNode_t> roots) {
  const NodeSet sinks = list.sinks();
  AddedNodes added;
  for (const Node& node : list.nodes()) {
    std::array<hipGraphNode_t, kNodeKinds> own{};
    std::size_t own_count = 0;
    for (std::size_t i = 0; i < kNodeKinds; ++i) {
      if (contains(node.dependencies, static_cast<NodeKind>(i))) own[own_count++] = added.by_kind[i];
    }
    const AddNode add = own_count > 0 ? AddNode{graph, own.data(), own_count}
                                      : AddNode{graph, roots.empty() ? nullptr : roots.data(), roots.size()};
    hipGraphNode_t handle = std::visit(add, node.operation);
    added.by_kind[static_cast<std::size_t>(node.kind)] = handle;
    if (contains(sinks, node.kind)) added.sinks[added.sink_count++] = handle;
  }
  return added;
}

hipError_t set_parameters(const Node& node, const AddedNodes& nodes, hipGraphExec_t executable) {
  return std::visit(SetParameters{executable, nodes.by_kind[static_cast<std::size_t>(node.kind)]}, node.operation);
}

hipError_t set_parameters(const NodeList& list, const AddedNodes& nodes, hipGraphExec_t executable) {
  for (const Node& node : list.nodes()) {
    const hipError_t error = set_parameters(node, nodes, executable);
    if (error != hipSuccess) return error;
  }
  return hipSuccess;
}

}  // namespace fmhax::detail
