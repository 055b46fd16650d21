// Closures, staging, workspaces and executables that are let go too early, or in the wrong place.
#include <hiphost/explore.hpp>
#include <hiphost/fault.hpp>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "peer_backward.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

const std::vector<std::int32_t> kOtherLengths{100, 20, 0, 250};

std::string failure_of_replay(Call& call, const CapturedGraph& graph) {
  return test::failure_of_replay(call, [&](hipStream_t stream) { graph.launch(stream); });
}

/// Eager work of another shape whose staging has the size of long_case's. It writes all staging that is free: calls
/// wait behind one another until the pool has to make a block.
struct OtherWork {
  void run() {
    const detail::StagingPool& pool = call.executor.state()->pool;
    const OwnedStream stream;
    Gate gate(stream.get());
    const std::size_t blocks = pool.counters().blocks;
    while (pool.counters().blocks == blocks) call.executor.enqueue(call.arguments(), stream.get());
    gate.open();
    stream.synchronize();
  }
  Call call{group_case({7, 130, 190, 3}, 330, 17)};
};

}  // namespace

TEST_CASE("a hand-written backward without a fault passes every check that the faulty ones fail") {
  Call call(long_case());
  PeerBackward peer(call);
  const CapturedGraph graph([&](hipStream_t stream) { peer.enqueue(stream); });
  OtherWork other;
  for (int round = 0; round < 3; ++round) {
    call.load(round % 2 == 0 ? group_case(kOtherLengths, kCapacity, 5) : long_case());
    CHECK(failure_of_replay(call, graph) == "");
    other.run();
  }
}

TEST_CASE("fault 1: a closure that frees itself on its first run") {
  Call call(long_case());
  SUBCASE("wrong: the second replay uses it") {
    PeerBackward peer(call, {.closure_frees_itself = true});
    const CapturedGraph graph([&](hipStream_t stream) { peer.enqueue(stream); });
    CHECK(failure_of_replay(call, graph) == "");
    call.load(group_case(kOtherLengths, kCapacity, 5));
    CHECK(failure_of_replay(call, graph) != "");
    CHECK(peer.uses_after_free() == 1);
  }
  SUBCASE("right: five replays, the captured graph gone before them") {
    CapturedGraph graph([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    graph.destroy_graph();
    for (int replay = 0; replay < 5; ++replay) {
      call.load(replay % 2 == 0 ? group_case(kOtherLengths, kCapacity, 5) : long_case());
      CHECK(failure_of_replay(call, graph) == "");
    }
  }
}

TEST_CASE("fault 2: staging that goes back to its pool when the capture ends") {
  Call call(long_case());
  OtherWork other;
  SUBCASE("wrong: replays alone don't show it, eager work between them does") {
    PeerBackward peer(call, {.packs_when_enqueued = true});
    const CapturedGraph graph([&](hipStream_t stream) { peer.enqueue(stream); });
    peer.release_staging();
    for (int replay = 0; replay < 5; ++replay) CHECK(failure_of_replay(call, graph) == "");
    other.run();
    CHECK(failure_of_replay(call, graph) != "");
  }
  SUBCASE("right") {
    const CapturedGraph graph([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    for (int replay = 0; replay < 5; ++replay) {
      CHECK(failure_of_replay(call, graph) == "");
      other.run();
    }
  }
}

TEST_CASE("fault 3: the longest sequence is frozen at capture") {
  Case short_case = group_case({90, 80, 100, 70}, kCapacity, 3);
  const Case longer = group_case({20, 250, 0, 70}, kCapacity, 4);
  Call call(short_case);
  SUBCASE("wrong: longer sequences give other gradients, and nobody says so") {
    PeerBackward peer(call, {.frozen_max_seqlen = 100});
    const CapturedGraph graph([&](hipStream_t stream) { peer.enqueue(stream); });
    CHECK(failure_of_replay(call, graph) == "");
    call.load(longer);
    CHECK(failure_of_replay(call, graph) != "");
    CHECK(call.arguments().status.read().code == StatusCode::ok);
  }
  SUBCASE("right: exact within the capacity") {
    Graph graph(call.executor, call.arguments());
    call.load(longer);
    CHECK(failure_of_replay(call, [&](hipStream_t stream) { graph.launch(stream); }) == "");
  }
  SUBCASE("right: detected beyond it") {
    short_case.problem.max_seqlen_q = short_case.problem.max_seqlen_k = 100;
    Call bounded(short_case);
    Graph graph(bounded.executor, bounded.arguments());
    set_starts(bounded.arguments(), longer.lengths.q.seqstart, longer.lengths.k.seqstart);
    const OwnedStream stream;
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(graph.status().code == StatusCode::exceeds_max_seqlen);
    CHECK(graph.status().sequence == 1);
    CHECK(std::isnan(bounded.device.download_gradients().dq.data.front()));
  }
}

TEST_CASE("fault 4: memory freed in a callback") {
  struct Freed {
    void* memory = nullptr;
    std::atomic<hipError_t> result{hipErrorNotReady};
  };
  const auto pinned = [] {
    void* memory = nullptr;
    check_hip(hipHostMalloc(&memory, 4096, hipHostMallocDefault), "hipHostMalloc");
    return memory;
  };
  const OwnedStream stream;
  SUBCASE("wrong: the runtime refuses, and the memory stays") {
    const std::size_t before = hiphost::live_objects().allocations;
    Freed freed;
    freed.memory = pinned();
    const auto free_it = [](void* data) {
      auto& what = *static_cast<Freed*>(data);
      what.result.store(hipHostFree(what.memory));
    };
    check_hip(hipLaunchHostFunc(stream.get(), free_it, &freed), "hipLaunchHostFunc");
    stream.synchronize();
    CHECK(freed.result != hipSuccess);
    CHECK(hiphost::live_objects().allocations == before + 1);
    check_hip(hipHostFree(freed.memory), "hipHostFree");
  }
  SUBCASE("right: the callback hands over, and another thread frees") {
    for (const Keepalive keepalive : {Keepalive::event, Keepalive::host_function}) {
      std::atomic<int> freed{0}, refused{0};
      ExecutorOptions options;
      options.keepalive = keepalive;
      options.pinned_host_alloc = [&](std::size_t) {
        return std::shared_ptr<void>(pinned(),
                                     [&](void* memory) { ++(hipHostFree(memory) == hipSuccess ? freed : refused); });
      };
      Call call(long_case(), options);
      for (int i = 0; i < 5; ++i) call.executor.enqueue(call.arguments(), stream.get());
      {
        const CapturedGraph graph([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
      }
      stream.synchronize();
      CHECK(eventually([&] { return (call.executor.state()->pool.collect(), freed == 6); }));
      CHECK(refused == 0);
    }
  }
}

TEST_CASE("fault 6: a workspace kept by stream: the second graph lacks the zeroing") {
  Case c = long_case();
  c.problem.is_deterministic = false;  // dq is added up, so it needs zeroes
  Call call(c);
  REQUIRE(call.executor.workspace_spec().needs_zero_dq_acc);
  SUBCASE("wrong") {
    PeerBackward peer(call, {.zeroes_first_call_only = true});
    const CapturedGraph first([&](hipStream_t stream) { peer.enqueue(stream); });
    const CapturedGraph second([&](hipStream_t stream) { peer.enqueue(stream); });
    CHECK(failure_of_replay(call, first) == "");
    CHECK(failure_of_replay(call, second) != "");
  }
  SUBCASE("right") {
    const CapturedGraph first([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    const CapturedGraph second([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    for (int replay = 0; replay < 2; ++replay) {
      CHECK(failure_of_replay(call, first) == "");
      CHECK(failure_of_replay(call, second) == "");
    }
  }
}

TEST_CASE("fault 6: a workspace that dies with the first of two graphs that use it") {
  Call call(long_case());
  const CallArguments whole = call.arguments();
  const auto run = [&](bool shares_workspace) {
    hiphost::Exploration exploration(1);
    CallArguments arguments = whole;
    arguments.workspace = nullptr;
    arguments.workspace_bytes = 0;
    void* shared = nullptr;
    if (shares_workspace) {
      check_hip(hipMalloc(&shared, static_cast<std::size_t>(whole.workspace_bytes)), "hipMalloc");
      arguments.workspace = shared;
      arguments.workspace_bytes = whole.workspace_bytes;
    }
    auto first = std::make_unique<Graph>(call.executor, arguments);
    Graph second(call.executor, arguments);
    const OwnedStream stream;
    first->launch(stream.get());
    stream.synchronize();
    first.reset();
    if (shares_workspace) check_hip(hipFree(shared), "hipFree");
    second.launch(stream.get());
    stream.synchronize();
    return exploration.finish().freed_accesses.size();
  };
  CHECK(run(true) > 0);
  CHECK(run(false) == 0);
}

TEST_CASE("fault 11: an executable destroyed while it runs") {
  Call call(long_case());
  OtherWork other;
  const OwnedStream stream;
  call.device.poison_outputs();
  SUBCASE("wrong: its staging goes with it, and other work takes it before the launch has read it") {
    PeerBackward peer(call, {.packs_when_enqueued = true});
    Gate gate(stream.get());
    {
      const CapturedGraph graph([&](hipStream_t s) { peer.enqueue(s); });
      graph.launch(stream.get());
    }
    peer.release_staging();
    other.run();
    gate.open();
    stream.synchronize();
    CHECK(call.failure() != "");
  }
  SUBCASE("right: a captured call") {
    Gate gate(stream.get());
    {
      const CapturedGraph graph([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
      graph.launch(stream.get());
    }
    other.run();
    gate.open();
    stream.synchronize();
    CHECK(call.failure() == "");
  }
  SUBCASE("right: a Graph") {
    auto graph = std::make_unique<Graph>(call.executor, call.arguments());  // may wait for the device
    Gate gate(stream.get());
    graph->launch(stream.get());
    graph.reset();
    other.run();
    gate.open();
    stream.synchronize();
    CHECK(call.failure() == "");
  }
}
