#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

struct WorkspaceHeap {
  verification::GuardedBuffer memory;
  std::vector<bool> zero_init;
  std::function<void*(std::size_t, bool)> allocator() {
    return [this](std::size_t bytes, bool zeroed) {
      if (memory.bytes() < bytes) memory = verification::GuardedBuffer(bytes);
      if (zeroed) {
        check_hip(hipMemset(memory.data(), 0, bytes), "hipMemset");
        check_hip(hipDeviceSynchronize(),
                  "hipDeviceSynchronize");  // the call's stream doesn't wait for the null stream
      }
      zero_init.push_back(zeroed);
      return memory.data();
    };
  }
};

}  // namespace

TEST_CASE("the caller's pinned memory is released once for each eager call, after the call") {
  for (const Keepalive keepalive : {Keepalive::event, Keepalive::host_function}) {
    PinnedHeap heap;
    ExecutorOptions options;
    options.keepalive = keepalive;
    options.pinned_host_alloc = heap.allocator();
    Call call(long_case(), options);
    const OwnedStream stream;
    call.device.poison_outputs();
    for (int i = 0; i < 7; ++i) call.executor.enqueue(call.arguments(), stream.get());
    CHECK(heap.made == 7);
    stream.synchronize();
    CHECK(call.failure() == "");
    CHECK(eventually([&] { return (call.executor.state()->pool.collect(), heap.released == 7); }));
  }
}

TEST_CASE("the caller's pinned memory lives as long as a graph that reads it") {
  PinnedHeap heap;
  ExecutorOptions options;
  options.pinned_host_alloc = heap.allocator();
  Call call(long_case(), options);
  detail::StagingPool& pool = call.executor.state()->pool;
  const OwnedStream stream;
  {
    const CapturedGraph captured([&](hipStream_t capturing) { call.executor.enqueue(call.arguments(), capturing); });
    Graph graph(call.executor, call.arguments());
    CHECK(heap.made == 2);
    for (int i = 0; i < 3; ++i) {
      captured.launch(stream.get());
      graph.launch(stream.get());
      stream.synchronize();
      pool.collect();
      CHECK(heap.released == 0);
    }
  }
  CHECK(eventually([&] { return (pool.collect(), heap.released == 2); }));
  CHECK(call.failure() == "");
}

TEST_CASE("an allocator that throws leaves nothing enqueued and a capture that can be ended") {
  ExecutorOptions options;
  bool throws = true;
  PinnedHeap heap;
  options.pinned_host_alloc = [&](std::size_t bytes) {
    if (throws) throw std::runtime_error("no pinned memory today");
    return heap.allocator()(bytes);
  };
  Call call(long_case(), options);
  const OwnedStream stream;
  CHECK_THROWS_AS(call.executor.enqueue(call.arguments(), stream.get()), std::runtime_error);
  CHECK_THROWS_AS(Graph(call.executor, call.arguments()), std::runtime_error);
  {
    const CapturedGraph captured([&](hipStream_t capturing) {
      CHECK_THROWS_AS(call.executor.enqueue(call.arguments(), capturing), std::runtime_error);
    });
    CHECK(node_count(captured.graph()) == 0);
  }
  throws = false;
  call.device.poison_outputs();
  call.executor.enqueue(call.arguments(), stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("the workspace allocator is asked for zeroed memory only where a call, not a graph, needs it") {
  WorkspaceHeap heap;
  ExecutorOptions options;
  options.workspace_alloc = heap.allocator();
  Call call(long_case(), options);
  REQUIRE(call.executor.workspace_spec().needs_zero_dq_acc);
  CallArguments arguments = call.arguments();
  arguments.workspace = nullptr;
  arguments.workspace_bytes = 0;
  const OwnedStream stream;
  call.device.poison_outputs();
  call.executor.enqueue(arguments, stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");

  Graph graph(call.executor, arguments);
  const CapturedGraph captured([&](hipStream_t capturing) { call.executor.enqueue(arguments, capturing); });
  CHECK(heap.zero_init == std::vector<bool>{true, false, false});
  for (int i = 0; i < 2; ++i) {
    heap.memory.poison();
    call.device.poison_outputs();
    graph.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
    heap.memory.poison();
    call.device.poison_outputs();
    captured.launch(stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
  }
  CHECK(heap.memory.guards_are_intact());
}

TEST_CASE("a workspace allocator without memory is an error and nothing is enqueued") {
  ExecutorOptions options;
  options.workspace_alloc = [](std::size_t, bool) -> void* { return nullptr; };
  Call call(long_case(), options);
  CallArguments arguments = call.arguments();
  arguments.workspace = nullptr;
  const OwnedStream stream;
  try {
    call.executor.enqueue(arguments, stream.get());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::out_of_memory);
  }
  CHECK(hipStreamQuery(stream.get()) == hipSuccess);
}
