// Faults of runtimes, played by wrapped calls: host functions that graphs refuse or run at the wrong time, parameters
// that don't change, a first replay that ignores a copy's dependency. FMHAX_TEST_RUNTIME names the one to play.
#include <hiphost/explore.hpp>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"
#include "node_list.hpp"
#include "node_walk.hpp"
#include "runtime_probe.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

std::string played_runtime() {
  const char* name = std::getenv("FMHAX_TEST_RUNTIME");
  return name != nullptr ? name : "";
}

/// A host node as a runtime would have it that runs its function in the first launch only.
struct FirstTimeOnly {
  hipHostNodeParams params;
  bool has_run = false;
  static void run(void* data) {
    auto& node = *static_cast<FirstTimeOnly*>(data);
    if (!node.has_run) node.params.fn(node.params.userData);
    node.has_run = true;
  }
};

}  // namespace

extern "C" {

hipError_t __real_hipGraphAddHostNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, std::size_t,
                                      const hipHostNodeParams*);
hipError_t __wrap_hipGraphAddHostNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                      std::size_t count, const hipHostNodeParams* params) {
  if (played_runtime() == "host_functions_refused") return hipErrorNotSupported;
  hipHostNodeParams played = *params;
  if (played_runtime() == "host_functions_at_once") {
    params->fn(params->userData);
    played.fn = [](void*) {};
  }
  if (played_runtime() == "host_functions_once") {
    static std::vector<std::unique_ptr<FirstTimeOnly>> kept;
    kept.push_back(std::make_unique<FirstTimeOnly>(FirstTimeOnly{*params}));
    played = {FirstTimeOnly::run, kept.back().get()};
  }
  return __real_hipGraphAddHostNode(node, graph, dependencies, count, &played);
}

// Success, and the next launch does what it did before.
#define FMHAX_STALE(function, parameters, arguments)                                          \
  hipError_t __real_##function parameters;                                                    \
  hipError_t __wrap_##function parameters {                                                   \
    return played_runtime() == "stale_parameters" ? hipSuccess : __real_##function arguments; \
  }
FMHAX_STALE(hipGraphExecMemsetNodeSetParams, (hipGraphExec_t e, hipGraphNode_t n, const hipMemsetParams* p), (e, n, p))
FMHAX_STALE(hipGraphExecHostNodeSetParams, (hipGraphExec_t e, hipGraphNode_t n, const hipHostNodeParams* p), (e, n, p))
FMHAX_STALE(hipGraphExecKernelNodeSetParams, (hipGraphExec_t e, hipGraphNode_t n, const hipKernelNodeParams* p),
            (e, n, p))
FMHAX_STALE(hipGraphExecMemcpyNodeSetParams1D,
            (hipGraphExec_t e, hipGraphNode_t n, void* to, const void* from, std::size_t bytes, hipMemcpyKind kind),
            (e, n, to, from, bytes, kind))
#undef FMHAX_STALE
}

namespace {

/// Nodes and executable of a call, made in full trust of the runtime.
class TrustingGraph {
 public:
  TrustingGraph(Call& call, MetadataPath path) : call_(call), lease_(staging_for(call)), path_(path) {
    check_hip(hipGraphCreate(&graph_, 0), "hipGraphCreate");
    detail::NodeList list;
    fill(call.arguments(), lease_->memory, list);
    nodes_ = detail::add_to_graph(list, graph_, {});
    check_hip(hipGraphInstantiate(&executable_, graph_, nullptr, nullptr, 0), "hipGraphInstantiate");
  }
  ~TrustingGraph() {
    if (executable_ != nullptr) (void)hipGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)hipGraphDestroy(graph_);
  }
  TrustingGraph(const TrustingGraph&) = delete;
  TrustingGraph& operator=(const TrustingGraph&) = delete;

  void retarget(Call& other) {
    other_lease_ = staging_for(other);
    detail::NodeList list;
    fill(other.arguments(), other_lease_->memory, list);
    check_hip(detail::set_parameters(list, nodes_, executable_), "hipGraphExec*NodeSetParams");
  }
  void launch(hipStream_t stream) const { check_hip(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }

 private:
  static detail::StagingLease staging_for(Call& call) {
    const detail::ExecutorState& state = *call.executor.state();
    detail::StagingLease lease(state.pool.acquire(state.staging.bytes, {}));
    (void)detail::make_pack_job(lease->memory, state.staging, state.spec, state.problem,
                                state.workspace_bytes - state.metadata_bytes, nullptr);
    return lease;
  }
  void fill(const CallArguments& arguments, void* staging, detail::NodeList& list) const {
    call_.executor.state()->build_node_list(arguments, {.path = path_, .staging = staging}, list);
  }

  Call& call_;
  detail::StagingLease lease_;
  detail::StagingLease other_lease_;
  MetadataPath path_;
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t executable_ = nullptr;
  detail::AddedNodes nodes_;
};

const std::set<std::string> kBadHostFunctions{"host_functions_refused", "host_functions_at_once",
                                              "host_functions_once"};
const Case kOther = group_case({100, 20, 0, 250}, kCapacity, 5);

}  // namespace

TEST_CASE("fault 5: host functions in graphs that are refused, run at once, or run in the first replay only") {
  const bool is_bad = kBadHostFunctions.contains(played_runtime());
  Call call(long_case());
  // Trust: refused, or wrong in one of the replays.
  std::string trusting;
  try {
    const TrustingGraph graph(call, MetadataPath::host);
    for (const Case& c : {kOther, long_case(), kOther}) {
      call.load(c);
      trusting += failure_of_replay(call, [&](hipStream_t stream) { graph.launch(stream); });
    }
  } catch (const Error& error) {
    trusting = error.what();
  }
  CHECK(trusting.empty() != is_bad);

  CHECK(detail::graphs_run_host_functions() != is_bad);
  Graph graph(call.executor, call.arguments());
  const CapturedGraph captured([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
  for (const Case& c : {kOther, long_case(), kOther}) {
    call.load(c);
    CHECK(failure_of_replay(call, [&](hipStream_t stream) { graph.launch(stream); }) == "");
    CHECK(failure_of_replay(call, [&](hipStream_t stream) { captured.launch(stream); }) == "");
  }
}

TEST_CASE("fault 12: set-params reports success and the old parameters run") {
  const bool is_stale = played_runtime() == "stale_parameters";
  if (kBadHostFunctions.contains(played_runtime())) return;
  Call first(long_case(1));
  Call second(group_case({20, 250, 0, 130}, kCapacity, 2));
  {
    TrustingGraph graph(first, MetadataPath::host);
    graph.retarget(second);
    const std::string failure = failure_of_replay(second, [&](hipStream_t stream) { graph.launch(stream); });
    CHECK(failure.empty() != is_stale);
  }
  Graph graph(first.executor, first.arguments());
  graph.update(second.arguments());
  CHECK(failure_of_replay(second, [&](hipStream_t stream) { graph.launch(stream); }) == "");
  CHECK(graph.counters().rebuilds == (is_stale ? 1 : 0));
  CHECK(graph.counters().updates == (is_stale ? 0 : 1));
}

TEST_CASE("fault 13: the first replay ignores a copy's dependency") {
  if (!played_runtime().empty()) return;
  // A runtime that ignores it runs this graph first, whose edge is missing, and the whole one afterwards.
  struct DroppedEdge {
    DroppedEdge() { detail::drop_dependency(detail::NodeKind::upload, detail::NodeKind::dq_dk_dv); }
    ~DroppedEdge() { detail::restore_dependencies(); }
  };
  Call call(long_case());
  std::unique_ptr<Graph> first;
  {
    const DroppedEdge dropped;
    first = std::make_unique<Graph>(call.executor, call.arguments());
  }
  Graph whole(call.executor, call.arguments());
  const auto races = [&](Graph& graph) {
    hiphost::Exploration exploration(2);
    const OwnedStream stream;
    graph.launch(stream.get());
    stream.synchronize();
    return exploration.finish().race_count;
  };
  CHECK(races(*first) > 0);  // replay 1, apart from the others
  CHECK(races(whole) == 0);
  CHECK(races(whole) == 0);
}
