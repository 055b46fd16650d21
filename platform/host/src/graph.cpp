#include "graph.hpp"

#include <algorithm>
#include <unordered_map>

#include "capture.hpp"
#include "runtime.hpp"

namespace hiphost {

Graph::Graph(Runtime& rt) : id(++rt.last_id), user_objects(rt), rt_(rt) {}

Graph::~Graph() = default;

Node& Graph::add_node(Work&& work, std::span<Node* const> before) {
  auto node = std::make_unique<Node>();
  node->graph = this;
  node->id = ++rt_.last_id;
  node->work = std::move(work);
  nodes.push_back(std::move(node));
  Node& added = *nodes.back();
  rt_.nodes.add(&added);
  for (Node* other : before) add_edge(*other, added);
  return added;
}

void Graph::remove_node(Node& node) {
  while (!node.before.empty()) remove_edge(*node.before.back(), node);
  while (!node.after.empty()) remove_edge(node, *node.after.back());
  rt_.nodes.remove(&node);
  if (node.child) unregister_graph(rt_, *node.child);
  std::erase_if(nodes, [&](const std::unique_ptr<Node>& other) { return other.get() == &node; });
}

Ref<Graph> Graph::clone() const {
  Ref<Graph> copy = make_ref<Graph>(rt_);
  copy->cloned_from = id;
  std::unordered_map<const Node*, Node*> copies;
  for (const auto& node : nodes) {
    Node& added = copy->add_node(Work(node->work), {});
    added.cloned_from = node->id;
    if (node->child) {
      added.child = node->child->clone();
      added.child->is_child = true;
    }
    copies[node.get()] = &added;
  }
  for (const auto& node : nodes) {
    for (const Node* dependency : node->before) add_edge(*copies[dependency], *copies[node.get()]);
  }
  copy->user_objects.add_all(user_objects);
  return copy;
}

// Kahn's algorithm, always taking the node that was created first.
std::vector<const Node*> Graph::topological_order() const {
  std::unordered_map<const Node*, std::size_t> open;
  std::vector<const Node*> order;
  const auto later = [](const Node* a, const Node* b) { return a->id > b->id; };
  std::vector<const Node*> ready;
  for (const auto& node : nodes) {
    open[node.get()] = node->before.size();
    if (node->before.empty()) ready.push_back(node.get());
  }
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const Node* node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const Node* next : node->after) {
      if (--open[next] != 0) continue;
      ready.push_back(next);
      std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  return order;
}

bool is_capturing(const Graph& graph) noexcept {
  if (graph.capture != nullptr) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const std::unique_ptr<Node>& node) { return node->child && is_capturing(*node->child); });
}

void retain_user_objects(const Graph& graph, UserObjectRefs& refs) {
  refs.add_all(graph.user_objects);
  for (const auto& node : graph.nodes) {
    if (node->child) retain_user_objects(*node->child, refs);
  }
}

hipGraphNodeType node_type(const Work& work) noexcept {
  static constexpr hipGraphNodeType kTypes[] = {
      hipGraphNodeTypeEmpty,  // empty
      hipGraphNodeTypeMemcpy,  hipGraphNodeTypeMemset, hipGraphNodeTypeKernel,      hipGraphNodeTypeHost,
      hipGraphNodeTypeHost,  // callback: never in a graph
      hipGraphNodeTypeMemFree, hipGraphNodeTypeGraph,  hipGraphNodeTypeEventRecord, hipGraphNodeTypeWaitEvent};
  static_assert(std::size(kTypes) == std::variant_size_v<Work>);
  return kTypes[work.index()];
}

bool has_edge(const Node& from, const Node& to) noexcept {
  return std::find(to.before.begin(), to.before.end(), &from) != to.before.end();
}

void add_edge(Node& from, Node& to) {
  from.after.push_back(&to);
  to.before.push_back(&from);
}

void remove_edge(Node& from, Node& to) {
  from.after.erase(std::find(from.after.begin(), from.after.end(), &to));
  to.before.erase(std::find(to.before.begin(), to.before.end(), &from));
}

bool find_nodes(Runtime& rt, const Graph& graph, const hipGraphNode_t* handles, std::size_t count,
                std::vector<Node*>& out) {
  // More handles than nodes can't be right, and reading them could leave the caller's array.
  if (count > graph.nodes.size() || (count != 0 && handles == nullptr)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    Node* node = rt.nodes.find(handles[i]);
    if (node == nullptr || !graph.contains(*node)) return false;
    if (std::find(out.begin(), out.end(), node) != out.end()) return false;
    out.push_back(node);
  }
  return true;
}

void register_graph(Runtime& rt, Graph& graph) {
  graph.ref();  // the handle's
  rt.graphs.add(&graph);
  for (const auto& node : graph.nodes) {
    if (node->child) register_graph(rt, *node->child);
  }
}

void unregister_graph(Runtime& rt, Graph& graph) {
  rt.graphs.remove(&graph);
  for (const auto& node : graph.nodes) {
    rt.nodes.remove(node.get());
    if (node->child) unregister_graph(rt, *node->child);
  }
  graph.unref();
}

}  // namespace hiphost
