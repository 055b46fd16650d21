#include <fmt/format.h>

#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

struct Describe {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(const SetNode& node) const {
    return fmt::format("memset {} bytes, 32-bit value {}", node.words * sizeof(std::uint32_t),
                       static_cast<std::int32_t>(node.value));
  }
  std::string operator()(const CopyNode& node) const {
    return fmt::format("copy {} {} bytes", node.kind == hipMemcpyDeviceToHost ? "D2H" : "H2D", node.bytes);
  }
  std::string operator()(const HostNode&) const { return "host function"; }
  std::string operator()(const KernelNode& node) const {
    const KernelLaunch& launch = *node.launch;
    return fmt::format("kernel grid {}x{}x{} block {}x{}x{} shared {} bytes", launch.grid[0], launch.grid[1],
                       launch.grid[2], launch.block[0], launch.block[1], launch.block[2], launch.shared_bytes);
  }
};

template <class Visit>
void for_each_dependency(const Node& node, Visit visit) {
  for (std::size_t i = 0; i < kNodeKinds; ++i) {
    const auto kind = static_cast<NodeKind>(i);
    if (contains(node.dependencies, kind)) visit(kind);
  }
}

}  // namespace

std::string describe(const NodeList& list) {
  std::string text;
  for (const Node& node : list.nodes()) {
    std::string dependencies;
    for_each_dependency(node, [&](NodeKind kind) {
      dependencies += dependencies.empty() ? "  <- " : ", ";
      dependencies += to_string(kind);
    });
    text += fmt::format("{:<16}{}{}\n", to_string(node.kind), std::visit(Describe{}, node.operation), dependencies);
  }
  if ((list.kinds() & kHostChain) != 0) text += "keepalive       staging returns to its pool  <- the stream's tail\n";
  return text;
}

std::string dot(const NodeList& list) {
  std::string text = "digraph fmhax {\n  node [shape=box];\n";
  for (const Node& node : list.nodes()) {
    text += fmt::format("  {} [label=\"{}\\n{}\"];\n", to_string(node.kind), to_string(node.kind),
                        std::visit(Describe{}, node.operation));
    for_each_dependency(
        node, [&](NodeKind kind) { text += fmt::format("  {} -> {};\n", to_string(kind), to_string(node.kind)); });
  }
  return text + "}\n";
}

}  // namespace fmhax::detail
