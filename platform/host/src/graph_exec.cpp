#include "graph_exec.hpp"

#include <algorithm>

#include "capture.hpp"

namespace hiphost {
namespace {

constexpr std::size_t kRunsKept = 4;

}  // namespace

bool flatten(const Graph& graph, const std::vector<std::uint32_t>& entry, std::vector<ExecNode>& out) {
  const std::vector<const Node*> order = graph.topological_order();
  if (order.size() != graph.nodes.size()) return false;
  std::unordered_map<const Node*, std::uint32_t> place;
  for (const Node* node : order) {
    ExecNode flat;
    flat.node_id = node->id;
    flat.work = std::make_shared<const Work>(node->work);
    for (const Node* dependency : node->before) flat.before.push_back(place[dependency]);
    if (flat.before.empty()) flat.before = entry;
    std::sort(flat.before.begin(), flat.before.end());
    if (node->child) {
      flat.first_of_child = static_cast<std::uint32_t>(out.size());
      if (!flatten(*node->child, flat.before, out)) return false;
      // The child's end comes after those of its nodes that nothing in it comes after.
      std::vector<bool> followed(out.size() - flat.first_of_child);
      for (std::size_t i = flat.first_of_child; i < out.size(); ++i) {
        for (const std::uint32_t before : out[i].before) {
          if (before >= flat.first_of_child) followed[before - flat.first_of_child] = true;
        }
      }
      if (!followed.empty()) flat.before.clear();
      for (std::size_t i = 0; i < followed.size(); ++i) {
        if (!followed[i]) flat.before.push_back(flat.first_of_child + static_cast<std::uint32_t>(i));
      }
    }
    place[node] = static_cast<std::uint32_t>(out.size());
    out.push_back(std::move(flat));
  }
  return true;
}

Retained::Retained(Runtime& rt, const Graph& graph) : rt_(rt), objects_(std::make_unique<UserObjectRefs>(rt)) {
  add(graph);
}

Retained::~Retained() {
  const Lock lock(rt_.mutex);
  objects_.reset();
}

Exec::Exec(std::vector<ExecNode> nodes_, unsigned long long flags_, Ref<Retained> retained_)
    : nodes(std::move(nodes_)), flags(flags_), retained(std::move(retained_)) {
  add_ids(nodes);
}

void Exec::add_ids(const std::vector<ExecNode>& from) {
  for (std::uint32_t i = 0; i < from.size(); ++i) index_[from[i].node_id] = i;
}

std::int64_t Exec::index_of(const Node& node) const {
  const auto it = index_.find(node.id);
  return it == index_.end() ? -1 : std::int64_t{it->second};
}

void Exec::set_work(std::size_t index, Work&& work) {
  nodes[index].work = std::make_shared<const Work>(std::move(work));
  ++version;
}

hipError_t Exec::launch(Stream& stream) {
  Ref<GraphRun> run;
  for (const Ref<GraphRun>& kept : runs_) {
    if (kept->idle()) run = kept;
    if (run) break;
  }
  if (!run) {
    run = make_ref<GraphRun>(*this);
    if (runs_.size() < kRunsKept) runs_.push_back(run);
  }
  // A graph is in flight once at a time.
  const hipError_t status = run->start(*this, stream, last_.get());
  if (status == hipSuccess) last_ = run->end();
  return status;
}

Ref<Graph> Exec::to_graph(Runtime& rt) const {
  Ref<Graph> graph = make_ref<Graph>(rt);
  std::vector<Node*> made;
  for (const ExecNode& node : nodes) {
    const bool runs = node.enabled && !std::holds_alternative<ChildWork>(*node.work);
    std::vector<Node*> before;
    for (const std::uint32_t index : node.before) before.push_back(made[index]);
    made.push_back(&graph->add_node(runs ? Work(*node.work) : Work(EmptyWork{}), before));
  }
  graph->user_objects.add_all(retained->objects());
  return graph;
}

GraphRun::GraphRun(const Exec& exec) : version_(exec.version), begin_(*this, false), end_(*this, true) {
  const std::size_t count = exec.nodes.size();
  std::vector<std::vector<Task*>> after(count + 1);  // the last entry is begin_'s
  for (std::size_t i = 0; i < count; ++i) tasks_.emplace_back(*this);
  std::size_t edges = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& before = exec.nodes[i].before;
    tasks_[i].predecessors_ = static_cast<std::int32_t>(std::max<std::size_t>(before.size(), 1));
    if (before.empty()) after[count].push_back(&tasks_[i]);
    for (const std::uint32_t index : before) after[index].push_back(&tasks_[i]);
    edges += static_cast<std::size_t>(tasks_[i].predecessors_);
  }
  for (auto& list : after) {
    if (!list.empty()) continue;
    list.push_back(&end_);
    ++end_.predecessors_;
    ++edges;
  }
  successors_.reserve(edges);
  for (std::size_t i = 0; i <= count; ++i) {
    Task** first = successors_.data() + successors_.size();
    successors_.insert(successors_.end(), after[i].begin(), after[i].end());
    if (i < count) {
      tasks_[i].set_static_successors(first, after[i].size());
    } else {
      begin_.set_static_successors(first, after[i].size());
    }
  }
  bind(exec);
}

void GraphRun::bind(const Exec& exec) {
  static const auto kNothing = std::make_shared<const Work>(EmptyWork{});
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    NodeTask& task = tasks_[i];
    task.work_ = exec.nodes[i].enabled ? exec.nodes[i].work : kNothing;
    task.set_kind(task_kind(*task.work_));
  }
  version_ = exec.version;
}

hipError_t GraphRun::start(const Exec& exec, Stream& stream, Task* before) {
  if (version_ != exec.version) bind(exec);
  device_ = &stream.device;
  begin_.reset(0);
  end_.reset(end_.predecessors_);
  std::vector<Scheduler::Edge> edges;
  // A record has a task of its own behind the node's: through the node's, the event would own what owns the event.
  std::vector<std::pair<Event*, Ref<Task>>> records;
  for (NodeTask& task : tasks_) {
    task.reset(task.predecessors_);
    task.set_priority(stream.priority);
    if (const auto* wait = std::get_if<WaitWork>(task.work_.get()); wait != nullptr && wait->event->record) {
      edges.push_back({wait->event->record.get(), &task});
    } else if (const auto* record = std::get_if<RecordWork>(task.work_.get())) {
      records.emplace_back(record->event.get(), make_ref<RecordTask>(record->event->has_timing()));
      edges.push_back({&task, records.back().second.get()});
    }
  }
  // The scheduler drops a reference to each task that it finishes, and takes one itself only for begin_.
  const auto borrow = [&](auto&& change) {
    for (std::size_t i = 0; i <= tasks_.size(); ++i) change(*this);
    for (auto& [event, task] : records) change(*task);
  };
  borrow([](RefCounted& task) { task.ref(); });
  in_flight_ = exec.retained;
  const hipError_t status = append_group(stream, begin_, end(), before, edges);
  if (status != hipSuccess) {
    in_flight_ = {};
    borrow([](RefCounted& task) { task.unref(); });
    return status;
  }
  for (auto& [event, task] : records) event->set_record(std::move(task));
  return hipSuccess;
}

}  // namespace hiphost
