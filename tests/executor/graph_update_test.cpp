#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// Two calls of one problem with tensors, lengths and workspaces of their own.
struct Pair {
  Call first{long_case(21)};
  Call second{group_case({20, 250, 0, 130}, kCapacity, 22)};

  void poison() {
    first.device.poison_outputs();
    second.device.poison_outputs();
  }
};

bool rebuilds_always() { return std::getenv("FMHAX_REBUILD_GRAPHS") != nullptr; }

}  // namespace

TEST_CASE("an update retargets the launches that follow, and only those") {
  Pair calls;
  Graph graph(calls.first.executor, calls.first.arguments());
  const OwnedStream stream;
  for (int round = 0; round < 4; ++round) {
    calls.poison();
    graph.update(calls.first.arguments());
    graph.launch(stream.get());
    graph.update(calls.second.arguments());  // while the launch may still be in flight
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(calls.first.failure() == "");
    CHECK(calls.second.failure() == "");
  }
  const Graph::Counters counters = graph.counters();
  CHECK(counters.launches == 8);
  CHECK(counters.updates == (rebuilds_always() ? 0 : 8));
  CHECK(counters.rebuilds == (rebuilds_always() ? 8 : 0));
}

TEST_CASE("several updates without a launch between them leave the last one in force") {
  Pair calls;
  Graph graph(calls.first.executor, calls.first.arguments());
  const OwnedStream stream;
  calls.poison();
  graph.launch(stream.get());
  graph.update(calls.second.arguments());
  graph.update(calls.first.arguments());
  graph.update(calls.second.arguments());
  graph.launch(stream.get());
  stream.synchronize();
  CHECK(calls.first.failure() == "");
  CHECK(calls.second.failure() == "");
}

TEST_CASE("an update changes the scale and where the status goes") {
  Pair calls;
  CallArguments arguments = calls.first.arguments();
  Graph graph(calls.first.executor, arguments);
  const OwnedStream stream;
  arguments.scale = 0.5F;  // not the scale that LSE was made with: other gradients
  arguments.status = StatusBuffer::create();
  graph.update(arguments);
  calls.poison();
  graph.launch(stream.get());
  stream.synchronize();
  CHECK(calls.first.failure() != "");
  CHECK(arguments.status.read().checks == 1);
  arguments.scale = calls.first.arguments().scale;
  const StatusBuffer status = std::exchange(arguments.status, {});
  graph.update(arguments);
  calls.poison();
  graph.launch(stream.get());
  stream.synchronize();
  CHECK(calls.first.failure() == "");
  CHECK(status.read().checks == 2);  // kept, since the second update brought none
}

TEST_CASE("an update that is refused leaves the graph as it was") {
  Pair calls;
  Graph graph(calls.first.executor, calls.first.arguments());
  CallArguments bad = calls.second.arguments();
  bad.dk.data = nullptr;
  CHECK_THROWS_AS(graph.update(bad), Error);
  const OwnedStream stream;
  calls.poison();
  graph.launch(stream.get());
  stream.synchronize();
  CHECK(calls.first.failure() == "");
  CHECK(calls.second.failure() != "");
  CHECK(graph.counters().updates + graph.counters().rebuilds == 0);
}

TEST_CASE("after updates in flight and destruction everything comes home") {
  Pair calls;
  detail::StagingPool& pool = calls.first.executor.state()->pool;
  const auto everything_is_home = [&] {
    return eventually([&] { return (pool.collect(), pool.counters().in_use == 0); });
  };
  REQUIRE(everything_is_home());
  const OwnedStream stream;
  calls.poison();
  for (const bool launches_last : {true, false}) {
    CallArguments without_workspace = calls.first.arguments();
    without_workspace.workspace = nullptr;
    Graph graph(calls.first.executor, without_workspace);
    graph.launch(stream.get());
    graph.update(calls.second.arguments());
    if (launches_last) graph.launch(stream.get());
  }
  stream.synchronize();
  CHECK(calls.first.failure() == "");
  CHECK(calls.second.failure() == "");
  CHECK(everything_is_home());
}

TEST_CASE("the updated graph itself is up to date for those who embed it") {
  Pair calls;
  Graph graph(calls.first.executor, calls.first.arguments());
  graph.update(calls.second.arguments());
  hipGraphExec_t executable = nullptr;
  check_hip(hipGraphInstantiate(&executable, graph.native(), nullptr, nullptr, 0), "hipGraphInstantiate");
  const OwnedStream stream;
  calls.poison();
  check_hip(hipGraphLaunch(executable, stream.get()), "hipGraphLaunch");
  stream.synchronize();
  CHECK(calls.second.failure() == "");
  check_hip(hipGraphExecDestroy(executable), "hipGraphExecDestroy");
}
