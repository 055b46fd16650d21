#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

struct AddNode {
  hipGraph_t graph;
  const hipGraphNode_t* dependencies;
  std::size_t dependency_count;

  hipGraphNode_t operator()(std::monostate) const { return nullptr; }
  hipGraphNode_t operator()(const SetNode& set) const {
    hipMemsetParams params{};
    params.dst = set.destination;
    params.elementSize = sizeof(std::uint32_t);
    params.width = set.words;
    params.height = 1;
    params.value = set.value;
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
    hipHostNodeParams params{};
    params.fn = host.function;
    params.userData = host.user_data;
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddHostNode, &node, graph, dependencies, dependency_count, &params);
    return node;
  }
  hipGraphNode_t operator()(const KernelNode& kernel) const {
    const KernelLaunch& launch = *kernel.launch;
    std::array<void*, KernelLaunch::kMaxArguments> arguments{};
    for (std::uint32_t i = 0; i < launch.argument_count; ++i) {
      arguments[i] = const_cast<unsigned char*>(launch.arguments + launch.argument_offset[i]);
    }
    hipKernelNodeParams params{};
    params.func = const_cast<void*>(launch.function);
    params.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
    params.blockDim = dim3(launch.block[0], launch.block[1], launch.block[2]);
    params.sharedMemBytes = launch.shared_bytes;
    params.kernelParams = arguments.data();
    hipGraphNode_t node = nullptr;
    FMHAX_HIP(hipGraphAddKernelNode, &node, graph, dependencies, dependency_count, &params);
    return node;
  }
};

}  // namespace

AddedNodes add_to_graph(const NodeList& list, hipGraph_t graph, std::span<const hipGraphNode_t> roots) {
  std::array<hipGraphNode_t, kNodeKinds> by_kind{};
  const NodeSet sinks = list.sinks();
  AddedNodes added;
  for (const Node& node : list.nodes()) {
    std::array<hipGraphNode_t, kNodeKinds> own{};
    std::size_t own_count = 0;
    for (std::size_t i = 0; i < kNodeKinds; ++i) {
      if (contains(node.dependencies, static_cast<NodeKind>(i))) own[own_count++] = by_kind[i];
    }
    const AddNode add = own_count > 0 ? AddNode{graph, own.data(), own_count}
                                      : AddNode{graph, roots.empty() ? nullptr : roots.data(), roots.size()};
    const hipGraphNode_t handle = std::visit(add, node.operation);
    by_kind[static_cast<std::size_t>(node.kind)] = handle;
    if (contains(sinks, node.kind)) added.sinks[added.sink_count++] = handle;
  }
  return added;
}

}  // namespace fmhax::detail
