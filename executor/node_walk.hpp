/// @file The walkers of a node list.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "node_list.hpp"

namespace fmhax::detail {

/// Enqueues one kernel.
void launch_kernel(const KernelLaunch& launch, hipStream_t stream);

/// Plays the list on `stream`, which must not be capturing. The host chain goes to a side stream that is forked
/// from and joined to it, so that it runs beside zeroing and dot_do_o. When a call fails, what was already
/// enqueued on the side is joined before the error is thrown.
void play_on_stream(const NodeList& list, hipStream_t stream, int device);

/// The graph nodes that a list became.
struct AddedNodes {
  std::array<hipGraphNode_t, kNodeKinds> by_kind{};
  std::array<hipGraphNode_t, kNodeKinds> sinks{};
  std::size_t sink_count = 0;
};

/// Adds the list to `graph`; nodes without dependencies of their own wait for `roots`.
AddedNodes add_to_graph(const NodeList& list, hipGraph_t graph, std::span<const hipGraphNode_t> roots);

/// Gives the executable's node of this kind the parameters of `node`; without an executable, that of the graph itself.
hipError_t set_parameters(const Node& node, const AddedNodes& nodes, hipGraphExec_t executable);

/// Gives the nodes of an executable the parameters of `list`, which is like the one that `nodes` were added from;
/// without an executable, those of the graph itself. Returns the first error; some nodes are then changed and some not.
hipError_t set_parameters(const NodeList& list, const AddedNodes& nodes, hipGraphExec_t executable);

/// One line a node: name, what it does, what it waits for.
std::string describe(const NodeList& list);
/// A Graphviz digraph.
std::string dot(const NodeList& list);

}  // namespace fmhax::detail
