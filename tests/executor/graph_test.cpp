#include <memory>
#include <optional>
#include <utility>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

TEST_CASE("a graph replays other lengths and inputs within its capacity, the first replay like the others") {
  Call call(long_case());
  Graph graph(call.executor, call.arguments());
  const OwnedStream stream;
  const std::vector<std::vector<std::int32_t>> all_lengths{{1, 0, 0, 0},        {100, 100, 100, 100}, {0, 0, 400, 0},
                                                           {129, 128, 127, 16}, {0, 0, 0, 0},         {300, 0, 1, 77}};
  std::uint64_t seed = 10;
  for (const std::vector<std::int32_t>& lengths : all_lengths) {
    call.load(group_case(lengths, kCapacity, ++seed));
    call.device.poison_outputs();
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
    CHECK(graph.status().code == StatusCode::ok);
  }
}

TEST_CASE("a graph outlives its executor and may be moved") {
  Call call(long_case());
  std::optional<Executor> executor(call.prepared.source.problem);
  Graph first(*executor, call.arguments());
  executor.reset();
  Graph second = std::move(first);
  const OwnedStream stream;
  call.device.poison_outputs();
  second.launch(stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("a graph brings its own workspace when the call has none") {
  Call call(long_case());
  CallArguments arguments = call.arguments();
  arguments.workspace = nullptr;
  arguments.workspace_bytes = 0;
  Graph graph(call.executor, arguments);
  const OwnedStream stream;
  for (int i = 0; i < 3; ++i) {
    call.device.poison_outputs();
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
  }
}

TEST_CASE("launches of one graph on several streams are ordered one after another") {
  Call call(long_case());
  Graph graph(call.executor, call.arguments());
  const OwnedStream a, b, c;
  call.device.poison_outputs();
  for (int round = 0; round < 10; ++round) {
    for (const OwnedStream* stream : {&a, &b, &c}) graph.launch(stream->get());
  }
  for (const OwnedStream* stream : {&a, &b, &c}) stream->synchronize();
  CHECK(call.failure() == "");
  CHECK(graph.status().checks == 30);
}

TEST_CASE("a graph may be destroyed while its launches are in flight, and everything comes home") {
  Call call(long_case());
  detail::StagingPool& pool = call.executor.state()->pool;
  const auto everything_is_home = [&] {
    return eventually([&] { return (pool.collect(), pool.counters().in_use == 0); });
  };
  REQUIRE(everything_is_home());
  CallArguments arguments = call.arguments();
  arguments.workspace = nullptr;
  const OwnedStream stream;
  call.device.poison_outputs();
  {
    Graph graph(call.executor, arguments);
    for (int i = 0; i < 5; ++i) graph.launch(stream.get());
  }
  stream.synchronize();
  CHECK(call.failure() == "");
  CHECK(everything_is_home());
}

TEST_CASE("two graphs of one executor do not share staging") {
  Call first(long_case(1));
  Call second(long_case(2));
  Graph a(first.executor, first.arguments());
  Graph b(first.executor, second.arguments());
  const OwnedStream stream_a, stream_b;
  for (int i = 0; i < 5; ++i) {
    first.device.poison_outputs();
    second.device.poison_outputs();
    a.launch(stream_a.get());
    b.launch(stream_b.get());
    stream_a.synchronize();
    stream_b.synchronize();
    CHECK(first.failure() == "");
    CHECK(second.failure() == "");
  }
}

TEST_CASE("a graph is not launched into a capture") {
  Call call(long_case());
  Graph graph(call.executor, call.arguments());
  const CapturedGraph captured([&](hipStream_t stream) { CHECK_THROWS_AS(graph.launch(stream), Error); });
  CHECK(node_count(captured.graph()) == 0);
}
