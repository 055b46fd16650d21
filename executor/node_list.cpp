#include "node_list.hpp"

#include <bit>

namespace fmhax::detail {
namespace {

constinit std::array<NodeSet, kNodeKinds> dropped_dependencies{};

}  // namespace

void drop_dependency(NodeKind before, NodeKind after) noexcept {
  dropped_dependencies[static_cast<std::size_t>(after)] |= node_set(before);
}

void restore_dependencies() noexcept { dropped_dependencies.fill(0); }

const char* to_string(NodeKind kind) noexcept {
  static constexpr std::array<const char*, kNodeKinds> kNames = {
      "fetch_q", "fetch_k", "fetch_logical_q", "fetch_logical_k", "pack",       "upload", "set_nsplits",
      "zero",    "prepare", "dot_do_o",        "dq_dk_dv",        "convert_dq", "dbias",  "dsink"};
  return kNames[static_cast<std::size_t>(kind)];
}

NodeSet direct_dependencies(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::fetch_q:
    case NodeKind::fetch_k:
    case NodeKind::fetch_logical_q:
    case NodeKind::fetch_logical_k:
    case NodeKind::set_nsplits:
    case NodeKind::zero:
    case NodeKind::prepare:
    case NodeKind::dot_do_o:
      return 0;
    case NodeKind::pack:
      return node_set(NodeKind::fetch_q, NodeKind::fetch_k, NodeKind::fetch_logical_q, NodeKind::fetch_logical_k);
    case NodeKind::upload:
      return node_set(NodeKind::pack);
    case NodeKind::dq_dk_dv:
      return node_set(NodeKind::upload, NodeKind::set_nsplits, NodeKind::zero, NodeKind::prepare, NodeKind::dot_do_o);
    case NodeKind::convert_dq:
      return node_set(NodeKind::dq_dk_dv);
    case NodeKind::dbias:
    case NodeKind::dsink:
      return node_set(NodeKind::upload, NodeKind::set_nsplits, NodeKind::prepare, NodeKind::dot_do_o);
  }
  return 0;
}

NodeSet NodeList::present_dependencies(NodeKind kind) const noexcept {
  const NodeSet wanted = direct_dependencies(kind);
  NodeSet present = wanted & kinds_;
  for (NodeSet absent = wanted & ~kinds_; absent != 0; absent &= absent - 1) {
    present |= present_dependencies(static_cast<NodeKind>(std::countr_zero(absent)));
  }
  return present;
}

Node& NodeList::append(NodeKind kind) {
  Node& node = nodes_[count_++];
  node.kind = kind;
  node.dependencies = present_dependencies(kind) & ~dropped_dependencies[static_cast<std::size_t>(kind)];
  kinds_ |= node_set(kind);
  return node;
}

KernelLaunch& NodeList::add_kernel(NodeKind kind) {
  KernelLaunch& launch = launches_[launch_count_++];
  append(kind).operation = KernelNode{&launch};
  return launch;
}

void NodeList::drop_last() noexcept {
  const Node& node = nodes_[--count_];
  kinds_ &= ~node_set(node.kind);
  if (std::holds_alternative<KernelNode>(node.operation)) --launch_count_;
}

NodeSet NodeList::sinks() const noexcept {
  NodeSet waited_for = 0;
  for (const Node& node : nodes()) waited_for |= node.dependencies;
  return kinds_ & ~waited_for;
}

}  // namespace fmhax::detail
