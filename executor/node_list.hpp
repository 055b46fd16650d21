/// @file One call as a list of nodes with dependencies: made once, then walked to play it on a stream, to add it
/// to a graph, or to print it.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::detail {

/// In an order that respects every dependency.
enum class NodeKind : std::uint8_t {
  fetch_q,
  fetch_k,
  fetch_logical_q,
  fetch_logical_k,
  pack,
  upload,
  set_nsplits,  ///< batch mode: the metadata are one constant
  zero,
  prepare,   ///< MetadataPath::device: all of the above in one kernel
  dot_do_o,  ///< absent where prepare is KernelRole::prepare_and_dot
  dq_dk_dv,
  convert_dq,
  dbias,
  dsink
};
inline constexpr std::size_t kNodeKinds = 14;

const char* to_string(NodeKind kind) noexcept;

/// A set of node kinds.
using NodeSet = std::uint32_t;
constexpr NodeSet node_set(NodeKind kind) { return NodeSet{1} << static_cast<unsigned>(kind); }
template <class... Kinds>
constexpr NodeSet node_set(NodeKind first, Kinds... rest) {
  return node_set(first) | node_set(rest...);
}
constexpr bool contains(NodeSet set, NodeKind kind) { return (set & node_set(kind)) != 0; }

/// The host chain: what runs beside the main line, on a side stream.
inline constexpr NodeSet kHostChain = node_set(NodeKind::fetch_q, NodeKind::fetch_k, NodeKind::fetch_logical_q,
                                               NodeKind::fetch_logical_k, NodeKind::pack, NodeKind::upload);

/// What a node directly waits for, in a call that has every node.
NodeSet direct_dependencies(NodeKind kind) noexcept;

/// For tests that show what a missing dependency does: lists made from now on lack this one too;
/// restore_dependencies() ends that. Not while another thread makes lists.
void drop_dependency(NodeKind before, NodeKind after) noexcept;
void restore_dependencies() noexcept;

struct SetNode {  ///< 32-bit words
  void* destination;
  std::uint32_t value;
  std::size_t words;
};
struct CopyNode {
  void* destination;
  const void* source;
  std::size_t bytes;
  hipMemcpyKind kind;
};
struct HostNode {
  hipHostFn_t function;
  void* user_data;
};
struct KernelNode {
  const KernelLaunch* launch;
};

struct Node {
  NodeKind kind{};
  NodeSet dependencies = 0;  ///< kinds that are in the same list
  std::variant<std::monostate, SetNode, CopyNode, HostNode, KernelNode> operation;
};

/// Fixed room, no heap: an eager call builds one on its stack.
class NodeList {
 public:
  static constexpr std::size_t kMaxKernels = 6;

  NodeList() = default;
  NodeList(const NodeList&) = delete;
  NodeList& operator=(const NodeList&) = delete;

  /// Nodes are added in the order of NodeKind. A dependency that is not in the list is replaced by that node's
  /// own dependencies, so that order is kept across what a call does not need.
  void add(NodeKind kind, SetNode node) { append(kind).operation = node; }
  void add(NodeKind kind, CopyNode node) { append(kind).operation = node; }
  void add(NodeKind kind, HostNode node) { append(kind).operation = node; }
  /// A launch to be filled by the caller; call drop_last() when there is nothing to launch.
  KernelLaunch& add_kernel(NodeKind kind);
  void drop_last() noexcept;

  std::span<const Node> nodes() const noexcept { return {nodes_.data(), count_}; }
  NodeSet kinds() const noexcept { return kinds_; }
  bool empty() const noexcept { return count_ == 0; }
  /// Kinds that no other node of the list waits for.
  NodeSet sinks() const noexcept;

 private:
  Node& append(NodeKind kind);
  NodeSet present_dependencies(NodeKind kind) const noexcept;

  std::array<Node, kNodeKinds> nodes_{};
  std::array<KernelLaunch, kMaxKernels> launches_;
  std::size_t count_ = 0;
  std::size_t launch_count_ = 0;
  NodeSet kinds_ = 0;
};

}  // namespace fmhax::detail
