#include <atomic>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

detail::StagingPool& pool() { return detail::StagingPool::of_device(0); }

/// Staging that nobody uses any more has come home. User objects are let go asynchronously.
bool staging_in_use_falls_to(std::size_t count) {
  return eventually([&] {
    pool().collect();
    return pool().counters().in_use == count;
  });
}

/// Launches and checks, with poisoned outputs before.
void check_replay(Call& call, const CapturedGraph& captured) {
  CHECK(failure_of_replay(call, [&](hipStream_t stream) { captured.launch(stream); }) == "");
}

}  // namespace

TEST_CASE("the packing host function runs not at capture but once in every replay") {
  Call call(long_case());
  CallArguments arguments = call.arguments();
  arguments.status = StatusBuffer::create();
  const CapturedGraph captured([&](hipStream_t stream) { call.executor.enqueue(arguments, stream); });
  CHECK(arguments.status.read().checks == 0);
  for (std::int64_t replay = 1; replay <= 5; ++replay) {
    check_replay(call, captured);
    CHECK(arguments.status.read().checks == replay);
  }
}

TEST_CASE("replays stay right while eager calls of other shapes run between them") {
  Call call(long_case());
  Call other(group_case({200, 150}, 350, 7));
  const CapturedGraph captured([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
  const OwnedStream stream;
  for (int round = 0; round < 6; ++round) {
    other.device.poison_outputs();
    for (int i = 0; i < 3; ++i) other.executor.enqueue(other.arguments(), stream.get());
    stream.synchronize();
    CHECK(other.failure() == "");
    call.load(group_case(
        round % 2 == 0 ? std::vector<std::int32_t>{100, 299, 0, 1} : std::vector<std::int32_t>{5, 130, 260, 2},
        kCapacity, static_cast<std::uint64_t>(round)));
    check_replay(call, captured);
  }
}

TEST_CASE("executor, arguments, graph and clones may go in any order before the replays") {
  for (const int order : {0, 1, 2}) {
    CAPTURE(order);
    REQUIRE(staging_in_use_falls_to(0));
    {
      Call call(long_case());
      auto executor = std::make_unique<Executor>(call.prepared.source.problem);
      auto arguments = std::make_unique<CallArguments>(call.arguments());
      arguments->status = StatusBuffer::create();
      CapturedGraph captured([&](hipStream_t stream) { executor->enqueue(*arguments, stream); });
      hipGraph_t clone = nullptr;
      check_hip(hipGraphClone(&clone, captured.graph()), "hipGraphClone");
      hipGraphExec_t from_clone = nullptr;
      check_hip(hipGraphInstantiate(&from_clone, clone, nullptr, nullptr, 0), "hipGraphInstantiate");

      if (order == 0) executor.reset();
      arguments.reset();
      captured.destroy_graph();
      if (order != 2) check_hip(hipGraphDestroy(clone), "hipGraphDestroy");
      executor.reset();
      check_replay(call, captured);
      if (order == 1) captured.destroy_executable();
      const OwnedStream stream;
      for (int replay = 0; replay < 5; ++replay) {
        call.device.poison_outputs();
        check_hip(hipGraphLaunch(from_clone, stream.get()), "hipGraphLaunch");
        stream.synchronize();
        CHECK(call.failure() == "");
      }
      CHECK(pool().counters().in_use == 1);
      check_hip(hipGraphExecDestroy(from_clone), "hipGraphExecDestroy");
      if (order == 2) check_hip(hipGraphDestroy(clone), "hipGraphDestroy");
    }
    CHECK(staging_in_use_falls_to(0));
  }
}

TEST_CASE("several calls in one capture each have staging of their own") {
  Call first(long_case(3));
  Call second(group_case({150, 140}, 300, 4));
  const CapturedGraph captured([&](hipStream_t stream) {
    first.executor.enqueue(first.arguments(), stream);
    second.executor.enqueue(second.arguments(), stream);
    first.executor.enqueue(first.arguments(), stream);
  });
  for (int replay = 0; replay < 3; ++replay) {
    second.device.poison_outputs();
    check_replay(first, captured);
    CHECK(second.failure() == "");
  }
}

TEST_CASE("a captured call is the same nodes and edges as a Graph") {
  Call call(long_case());
  const CapturedGraph captured([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
  const Graph graph(call.executor, call.arguments());
  const auto edges = [](hipGraph_t g) {
    std::size_t count = 0;
    check_hip(hipGraphGetEdges(g, nullptr, nullptr, &count), "hipGraphGetEdges");
    return count;
  };
  CHECK(node_count(captured.graph()) == node_count(graph.native()));
  CHECK(edges(captured.graph()) == edges(graph.native()));
}

TEST_CASE("work before and after a captured call keeps its place") {
  Call call(long_case());
  call.device.poison_outputs();
  const std::size_t bytes = static_cast<std::size_t>(kCapacity) * 2 * 16 * sizeof(float);
  void* copy = nullptr;
  check_hip(hipMalloc(&copy, bytes), "hipMalloc");
  const CapturedGraph captured([&](hipStream_t stream) {
    check_hip(hipMemsetAsync(copy, 0, bytes, stream), "hipMemsetAsync");
    call.executor.enqueue(call.arguments(), stream);
    check_hip(hipMemcpyAsync(copy, call.arguments().dq.data, bytes, hipMemcpyDeviceToDevice, stream), "hipMemcpyAsync");
  });
  check_replay(call, captured);
  std::vector<float> copied(bytes / sizeof(float)), dq(bytes / sizeof(float));
  check_hip(hipMemcpy(copied.data(), copy, bytes, hipMemcpyDeviceToHost), "hipMemcpy");
  check_hip(hipMemcpy(dq.data(), call.arguments().dq.data, bytes, hipMemcpyDeviceToHost), "hipMemcpy");
  CHECK(copied == dq);
  check_hip(hipFree(copy), "hipFree");
}

TEST_CASE("warm-up on one stream, capture on a second, replay on a third") {
  Call call(long_case());
  {
    const OwnedStream warm_up;
    call.executor.enqueue(call.arguments(), warm_up.get());
    warm_up.synchronize();
  }
  const CapturedGraph captured([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
  check_replay(call, captured);
  check_replay(call, captured);
}

TEST_CASE("eager calls of another thread do not disturb a capture in global mode") {
  Call call(long_case(5));
  Call other(group_case({180, 90}, 280, 6));
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::thread worker([&] {
    const OwnedStream stream;
    while (!stop) {
      other.executor.enqueue(other.arguments(), stream.get());
      ++calls;
      std::this_thread::yield();
    }
    stream.synchronize();
  });
  for (int i = 0; i < 10; ++i) {
    const int before = calls;
    const CapturedGraph captured([&](hipStream_t stream) {
      CHECK(eventually([&] { return calls > before + 1; }));
      call.executor.enqueue(call.arguments(), stream);
    });
    check_replay(call, captured);
  }
  stop = true;
  worker.join();
  CHECK(other.failure() == "");
}
