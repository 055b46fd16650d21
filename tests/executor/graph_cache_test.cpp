#include <atomic>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// Calls of one problem with tensors, lengths and workspaces of their own.
std::vector<std::unique_ptr<Call>> calls_of_one_problem(int count, const ExecutorOptions& options = {}) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(i + 1);
    calls.push_back(std::make_unique<Call>(group_case({100 + 10 * i, 0, 150, 7}, kCapacity, seed), options));
  }
  return calls;
}

void launch_and_check(GraphCache& cache, Call& call, hipStream_t stream) {
  call.device.poison_outputs();
  cache.launch(call.executor, call.arguments(), stream);
  check_hip(hipStreamSynchronize(stream), "hipStreamSynchronize");
  CHECK(call.failure() == "");
}

std::int64_t retargeted(const GraphCache& cache) { return cache.counters().updates + cache.counters().rebuilds; }

}  // namespace

TEST_CASE("graph cache: equal arguments hit, also with other lengths and another executor of the same plan") {
  GraphCache cache(4);
  auto calls = calls_of_one_problem(2);
  const OwnedStream stream;
  for (int round = 0; round < 3; ++round) {
    for (const auto& call : calls) launch_and_check(cache, *call, stream.get());
  }
  CHECK(cache.size() == 2);
  CHECK(cache.counters().misses == 2);
  CHECK(cache.counters().hits == 4);
  calls[0]->load(group_case({1, 2, 3, 4}, kCapacity, 8));
  launch_and_check(cache, *calls[0], stream.get());
  const Executor again(calls[0]->executor.problem());
  cache.launch(again, calls[0]->arguments(), stream.get());
  stream.synchronize();
  CHECK(cache.counters().hits == 6);
  CHECK(retargeted(cache) == 0);
}

TEST_CASE("graph cache: every argument and every part of the plan counts") {
  GraphCache cache(16);
  auto calls = calls_of_one_problem(2);
  const OwnedStream stream;
  const CallArguments base = calls[0]->arguments();
  const auto misses_with = [&](const Executor& executor, const CallArguments& arguments) {
    const std::int64_t before = cache.counters().misses;
    cache.launch(executor, arguments, stream.get());
    stream.synchronize();
    return cache.counters().misses - before;
  };
  CHECK(misses_with(calls[0]->executor, base) == 1);
  CHECK(misses_with(calls[0]->executor, base) == 0);
  CallArguments other = base;
  other.scale = 0.5F;
  CHECK(misses_with(calls[0]->executor, other) == 1);
  other = base;
  other.dv = calls[1]->arguments().dv;
  CHECK(misses_with(calls[0]->executor, other) == 1);
  other = base;
  other.status = StatusBuffer::create();
  CHECK(misses_with(calls[0]->executor, other) == 1);
  other = base;
  other.workspace = nullptr;  // the graph's own
  CHECK(misses_with(calls[0]->executor, other) == 1);
  ExecutorOptions options;
  options.metadata_path = MetadataPath::device;
  const Problem& problem = calls[0]->executor.problem();
  CHECK(misses_with(Executor(problem, options), base) == 1);
  CHECK(misses_with(Executor(problem, options), base) == 0);
  options = {};
  options.pinned_host_alloc = [](std::size_t bytes) {
    void* memory = nullptr;
    check_hip(hipHostMalloc(&memory, bytes, hipHostMallocDefault), "hipHostMalloc");
    return std::shared_ptr<void>(memory, [](void* pinned) { (void)hipHostFree(pinned); });
  };
  // Allocators can't be compared: each of these is a plan of its own.
  CHECK(misses_with(Executor(problem, options), base) == 1);
  CHECK(misses_with(Executor(problem, options), base) == 1);
  CHECK(cache.size() == 8);
}

TEST_CASE("graph cache: when full the oldest graph of the plan is retargeted, at most once per launch") {
  GraphCache cache(2);
  auto calls = calls_of_one_problem(3);
  const OwnedStream stream;
  for (int round = 0; round < 3; ++round) {
    for (const auto& call : calls) launch_and_check(cache, *call, stream.get());
  }
  CHECK(cache.size() == 2);
  CHECK(cache.counters().misses == 9);
  CHECK(retargeted(cache) == 7);
  CHECK(cache.counters().evictions == 0);
  launch_and_check(cache, *calls[2], stream.get());  // used last: still there
  launch_and_check(cache, *calls[1], stream.get());
  CHECK(cache.counters().hits == 2);
}

TEST_CASE("graph cache: graphs of another plan are dropped, the least recently used first, also in flight") {
  GraphCache cache(2);
  Call first(long_case(1));
  Call second(group_case({200, 150}, 350, 2));
  Call third(group_case({130, 130, 130}, 390, 3));
  const OwnedStream stream;
  for (Call* call : {&first, &second, &third}) {
    call->device.poison_outputs();
    cache.launch(call->executor, call->arguments(), stream.get());
  }
  stream.synchronize();
  for (Call* call : {&first, &second, &third}) CHECK(call->failure() == "");
  CHECK(cache.counters().evictions == 1);
  launch_and_check(cache, third, stream.get());
  launch_and_check(cache, second, stream.get());
  CHECK(cache.counters().hits == 2);
  launch_and_check(cache, first, stream.get());
  CHECK(cache.counters().evictions == 2);
  cache.clear();
  CHECK(cache.size() == 0);
  launch_and_check(cache, first, stream.get());
}

TEST_CASE("graph cache: a refused call changes nothing") {
  CHECK_THROWS_AS(GraphCache(0), Error);
  GraphCache cache(1);
  auto calls = calls_of_one_problem(2);
  const OwnedStream stream;
  launch_and_check(cache, *calls[0], stream.get());
  CallArguments bad = calls[1]->arguments();
  bad.dk.data = nullptr;
  CHECK_THROWS_AS(cache.launch(calls[1]->executor, bad, stream.get()), Error);
  check_hip(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
  CHECK_THROWS_WITH_AS(cache.launch(calls[1]->executor, calls[1]->arguments(), stream.get()),
                       doctest::Contains("capturing"), Error);
  CHECK_THROWS_AS(cache.launch(calls[0]->executor, calls[0]->arguments(), stream.get()), Error);
  hipGraph_t graph = nullptr;
  check_hip(hipStreamEndCapture(stream.get(), &graph), "hipStreamEndCapture");
  CHECK(node_count(graph) == 0);
  check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
  CHECK(cache.counters().misses == 1);
  launch_and_check(cache, *calls[0], stream.get());
  CHECK(retargeted(cache) == 0);
}

TEST_CASE("graph cache: a graph that can't be made leaves no trace and the next call makes it") {
  bool fails = true;
  ExecutorOptions options;
  options.workspace_alloc = [&fails](std::size_t bytes, bool) -> void* {
    if (fails) throw std::runtime_error("no memory today");
    static const verification::GuardedBuffer memory(bytes);
    return memory.data();
  };
  GraphCache cache(1);
  Call call(long_case(), options);
  call.arguments().workspace = nullptr;
  call.arguments().workspace_bytes = 0;
  const OwnedStream stream;
  CHECK_THROWS_AS(cache.launch(call.executor, call.arguments(), stream.get()), std::runtime_error);
  CHECK(cache.size() == 0);
  fails = false;
  launch_and_check(cache, call, stream.get());
  CHECK(cache.size() == 1);
}

TEST_CASE("graph cache: many threads, more calls than room") {
  GraphCache cache(3);
  constexpr int kThreads = 6;
  constexpr int kRounds = 40;
  auto calls = calls_of_one_problem(kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Call& call = *calls[static_cast<std::size_t>(t)];
      const OwnedStream stream;
      for (int round = 0; round < kRounds; ++round) {
        call.device.poison_outputs();
        cache.launch(call.executor, call.arguments(), stream.get());
        if (round % 3 == 0) cache.launch(call.executor, call.arguments(), stream.get());
        stream.synchronize();
        if (!call.failure().empty()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  const GraphCache::Counters counters = cache.counters();
  CHECK(counters.hits + counters.misses == kThreads * (kRounds + 14));
  CHECK(cache.size() <= 3);
}

TEST_CASE("graph cache: many threads with one call share one graph") {
  GraphCache cache(2);
  Call call(long_case());
  call.device.poison_outputs();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const OwnedStream stream;
      for (int i = 0; i < 20; ++i) cache.launch(call.executor, call.arguments(), stream.get());
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(call.failure() == "");
  CHECK(cache.counters().misses == 1);
  CHECK(cache.counters().hits == 79);
}
