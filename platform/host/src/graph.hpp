// Graphs as the application builds them: nodes with their work and their dependencies.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ref.hpp"
#include "user_object.hpp"
#include "work.hpp"

namespace hiphost {

class Capture;
class Graph;
class Runtime;

// Guarded by the runtime's lock, like the graph.
struct Node {
  Graph* graph = nullptr;
  std::uint64_t id = 0;
  std::uint64_t cloned_from = 0;  // id of the node this one was copied from
  Work work;
  Ref<Graph> child;
  std::vector<Node*> before;       // dependencies
  std::vector<Node*> after;        // dependents
  std::vector<void*> kernel_args;  // what hipGraphKernelNodeGetParams pointed to

  hipGraphNode_t handle() noexcept { return reinterpret_cast<hipGraphNode_t>(this); }
};

class Graph : public RefCounted {
 public:
  explicit Graph(Runtime& rt);
  ~Graph() override;

  Node& add_node(Work&& work, std::span<Node* const> before);
  void remove_node(Node& node);
  bool contains(const Node& node) const noexcept { return node.graph == this; }
  // A copy with its own user object references; child graphs are copied too.
  Ref<Graph> clone() const;
  std::vector<const Node*> topological_order() const;  // shorter than nodes if there is a cycle

  const std::uint64_t id;
  std::uint64_t cloned_from = 0;
  std::vector<std::unique_ptr<Node>> nodes;
  UserObjectRefs user_objects;
  Capture* capture = nullptr;  // that adds to it now
  bool is_child = false;       // owned by a child graph node

 private:
  Runtime& rt_;
};

// Whether a stream captures into the graph or into a child graph of it, at any depth.
bool is_capturing(const Graph& graph) noexcept;

// Adds references to the user objects of the graph and of its child graphs, at any depth.
void retain_user_objects(const Graph& graph, UserObjectRefs& refs);

hipGraphNodeType node_type(const Work& work) noexcept;

bool has_edge(const Node& from, const Node& to) noexcept;
void add_edge(Node& from, Node& to);
void remove_edge(Node& from, Node& to);

// The nodes that handles mean: null unless each is a node of `graph` and none is given twice.
bool find_nodes(Runtime& rt, const Graph& graph, const hipGraphNode_t* handles, std::size_t count,
                std::vector<Node*>& out);

// Removes the graph's handle and its nodes' handles, children included; the graph itself lives as long as it is
// referenced.
void unregister_graph(Runtime& rt, Graph& graph);
void register_graph(Runtime& rt, Graph& graph);

}  // namespace hiphost
