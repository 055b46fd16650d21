// Executables: a graph flattened to a list of nodes in topological order, and the tasks of its launches.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph.hpp"
#include "ref.hpp"
#include "runtime.hpp"
#include "scheduler.hpp"
#include "task.hpp"

namespace hiphost {

// A child graph's nodes stand before the node that stands for its end, which is the one with the child node's id.
struct ExecNode {
  std::uint64_t node_id = 0;  // of the graph's node
  std::shared_ptr<const Work> work;
  std::vector<std::uint32_t> before;  // indices, sorted
  std::uint32_t first_of_child = 0;   // child graphs: where their nodes begin
  bool enabled = true;
};

// Appends the graph's nodes; those without dependencies come after `entry`. False if there is a cycle.
bool flatten(const Graph& graph, const std::vector<std::uint32_t>& entry, std::vector<ExecNode>& out);

// References to user objects that outlive the last launch. The last owner must not hold the runtime's lock.
class Retained final : public RefCounted {
 public:
  Retained(Runtime& rt, const Graph& graph);
  ~Retained() override;
  const UserObjectRefs& objects() const noexcept { return *objects_; }
  void add(const Graph& graph) { retain_user_objects(graph, *objects_); }

 private:
  Runtime& rt_;
  std::unique_ptr<UserObjectRefs> objects_;
};

class GraphRun;

// Guarded by the runtime's lock; destroyed without it.
class Exec {
 public:
  Exec(std::vector<ExecNode> nodes_, unsigned long long flags_, Ref<Retained> retained_);

  // Index of the node that a graph node became, or -1.
  std::int64_t index_of(const Node& node) const;
  void set_work(std::size_t index, Work&& work);
  void add_ids(const std::vector<ExecNode>& from);

  hipError_t launch(Stream& stream);
  // The same nodes as a graph, for a launch that is captured.
  Ref<Graph> to_graph(Runtime& rt) const;

  std::vector<ExecNode> nodes;
  const unsigned long long flags;
  Ref<Retained> retained;
  std::uint64_t version = 0;  // changes with every change to nodes

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::vector<Ref<GraphRun>> runs_;  // kept for the next launches
  Ref<Task> last_;                   // the end of the latest launch, which the next one waits for
};

// The tasks of one launch, linked once and used again when nothing refers to them any more.
class GraphRun final : public RefCounted {
 public:
  explicit GraphRun(const Exec& exec);

  bool idle() const noexcept { return ref_count() == 1; }  // only the executable's reference is left
  hipError_t start(const Exec& exec, Stream& stream, Task* before);
  Ref<Task> end() noexcept { return Ref<Task>(&end_); }

 private:
  void bind(const Exec& exec);

  class NodeTask final : public WorkTask {
   public:
    explicit NodeTask(GraphRun& run) : WorkTask(TaskKind::kBounded), run_(run) { set_ref_owner(&run); }
    const char* name() const noexcept override { return work_name(*work_); }
    const Work& work() const noexcept override { return *work_; }
    bool in_graph() const noexcept override { return true; }

   protected:
    void execute() noexcept override { run_work(*work_, *run_.device_); }

   private:
    friend class GraphRun;
    GraphRun& run_;
    std::shared_ptr<const Work> work_;
    std::int32_t predecessors_ = 0;
  };

  class Marker final : public Task {
   public:
    Marker(GraphRun& run, bool last) : Task(TaskKind::kInstant), run_(run), last_(last) { set_ref_owner(&run); }
    const char* name() const noexcept override { return last_ ? "graph end" : "graph begin"; }

   protected:
    void execute() noexcept override {}
    void retired() noexcept override {
      if (last_) run_.in_flight_ = {};
    }

   private:
    friend class GraphRun;
    GraphRun& run_;
    const bool last_;
    std::int32_t predecessors_ = 0;
  };

  Device* device_ = nullptr;
  Ref<Retained> in_flight_;
  std::uint64_t version_;
  std::deque<NodeTask> tasks_;
  Marker begin_;
  Marker end_;
  std::vector<Task*> successors_;
};

}  // namespace hiphost
