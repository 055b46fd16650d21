// What docs/graphs.md promises to those who use Graph, where no other test shows it.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "contract_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// Holds a stream up until it is opened, ten seconds at most, so that a test that waits by mistake still ends.
class HeldStream {
 public:
  explicit HeldStream(hipStream_t stream) : stream_(stream) {
    const auto wait = [](void* self) {
      auto& held = *static_cast<HeldStream*>(self);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!held.is_open_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      held.has_passed_ = true;
    };
    check_hip(hipLaunchHostFunc(stream, wait, this), "hipLaunchHostFunc");
  }
  ~HeldStream() {
    is_open_ = true;
    (void)hipStreamSynchronize(stream_);
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  bool has_passed() const { return has_passed_; }

 private:
  hipStream_t stream_;
  std::atomic<bool> is_open_{false}, has_passed_{false};
};

}  // namespace

TEST_CASE("Graph::native() as a child node keeps its place in every replay of the graph that embeds it") {
  Call call(long_case());
  Graph backward(call.executor, call.arguments());
  const CallArguments& arguments = call.arguments();
  // The step brings the sequence starts to where the call reads them, and takes dq away.
  const std::size_t start_bytes = call.prepared.source.lengths.q.seqstart.size() * sizeof(std::int32_t);
  const std::size_t dq_bytes = static_cast<std::size_t>(arguments.dq.stride_batch) * sizeof(float);
  verification::GuardedBuffer starts(start_bytes);
  const verification::GuardedBuffer dq(dq_bytes);
  hipGraph_t step = nullptr;
  check_hip(hipGraphCreate(&step, 0), "hipGraphCreate");
  std::array<hipGraphNode_t, 2> brought{};
  const std::array<const std::int32_t*, 2> to{arguments.lengths.seqstart_q, arguments.lengths.seqstart_k};
  for (std::size_t i = 0; i < 2; ++i) {
    check_hip(hipGraphAddMemcpyNode1D(&brought[i], step, nullptr, 0, const_cast<std::int32_t*>(to[i]), starts.data(),
                                      start_bytes, hipMemcpyDeviceToDevice),
              "hipGraphAddMemcpyNode1D");
  }
  hipGraphNode_t child = nullptr, taken = nullptr;
  check_hip(hipGraphAddChildGraphNode(&child, step, brought.data(), 2, backward.native()), "hipGraphAddChildGraphNode");
  check_hip(
      hipGraphAddMemcpyNode1D(&taken, step, &child, 1, dq.data(), arguments.dq.data, dq_bytes, hipMemcpyDeviceToDevice),
      "hipGraphAddMemcpyNode1D");
  const hipGraphExec_t executable = instantiate(step);
  check_hip(hipGraphDestroy(step), "hipGraphDestroy");

  for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{20, 250, 0, 130}, {100, 100, 100, 100}}) {
    const Case c = group_case(lengths, kCapacity, 8);
    call.load(c);
    const auto* bytes = reinterpret_cast<const std::byte*>(c.lengths.q.seqstart.data());
    starts.upload({bytes, bytes + start_bytes});
    set_starts(arguments, {7, 3, -1, 9, 2});  // what the step must replace before the call
    check_replay(call, [&](hipStream_t s) { check_hip(hipGraphLaunch(executable, s), "hipGraphLaunch"); });
    std::vector<std::byte> downloaded(dq_bytes);
    check_hip(hipMemcpy(downloaded.data(), arguments.dq.data, dq_bytes, hipMemcpyDeviceToHost), "hipMemcpy");
    CHECK(dq.download() == downloaded);
    CHECK(backward.status().code == StatusCode::ok);
  }
  CHECK(backward.status().checks == 2);
  check_hip(hipGraphExecDestroy(executable), "hipGraphExecDestroy");
}

TEST_CASE("logical lengths may change between replays") {
  for (const LogicalLengths form : {LogicalLengths::per_sequence, LogicalLengths::cumulative}) {
    Case c = long_case();
    c.problem.logical_lengths = form;
    c.lengths.q.logical = c.lengths.k.logical = {290, 0, 1, 70};
    Call call(c);
    Graph graph(call.executor, call.arguments());
    const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
    for (const std::vector<std::int32_t>& logical : {std::vector<std::int32_t>{140, 0, 0, 77}, {300, 0, 1, 1}}) {
      c.lengths.q.logical = c.lengths.k.logical = logical;
      call.load(c);
      check_replay(call, [&](hipStream_t s) { graph.launch(s); });
      check_replay(call, [&](hipStream_t s) { captured.launch(s); });
    }
  }
}

TEST_CASE("an update takes other strides, and refuses another problem's tensors") {
  Call call(long_case());
  Case wider = long_case(2);
  wider.layouts.q.order = wider.layouts.dq.order = verification::Order::bhsd;
  wider.layouts.k.extra_heads = wider.layouts.dk.extra_heads = 2;
  Call strided(wider);
  Graph graph(call.executor, call.arguments());
  graph.update(strided.arguments());
  check_replay(strided, [&](hipStream_t s) { graph.launch(s); });
  Call longer(group_case({300, 0, 1, 77}, kCapacity + 1));
  CHECK_THROWS_WITH_AS(graph.update(longer.arguments()), doctest::Contains("q.seqlen is 401"), Error);
}

TEST_CASE("one graph is launched from several threads, each on two streams in turn") {
  constexpr int kThreads = 4, kLaunches = 30;
  Call call(long_case());
  Graph graph(call.executor, call.arguments());
  call.device.poison_outputs();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&graph] {
      const std::array<OwnedStream, 2> streams;
      for (std::size_t i = 0; i < kLaunches; ++i) graph.launch(streams[i % 2].get());
      for (const OwnedStream& stream : streams) stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(call.failure() == "");
  CHECK(graph.status().checks == kThreads * kLaunches);
  CHECK(graph.counters().launches == kThreads * kLaunches);
}

TEST_CASE("an update while another thread launches gives each launch the whole of one call's arguments") {
  constexpr int kLaunches = 60;
  Call first(long_case(21));
  Call second(group_case({20, 250, 0, 130}, kCapacity, 22));
  for (Call* call : {&first, &second}) call->arguments().status = StatusBuffer::create();
  Graph graph(first.executor, first.arguments());
  std::atomic<bool> is_done{false};
  std::atomic<int> updates{0};
  std::thread updating([&] {
    while (!is_done) {
      graph.update((updates % 2 == 0 ? second : first).arguments());
      ++updates;
      std::this_thread::yield();
    }
  });
  const OwnedStream stream;
  const auto runs_of = [](Call& call) { return call.arguments().status.read().checks; };
  for (int i = 0; i < kLaunches; ++i) {
    const int before = updates;
    CHECK(eventually([&] { return updates > before; }));
    for (Call* call : {&first, &second}) call->device.poison_outputs();
    const std::int64_t first_runs = runs_of(first);
    graph.launch(stream.get());
    stream.synchronize();
    const bool is_first = runs_of(first) > first_runs;
    CHECK((is_first ? first : second).failure() == "");
    CHECK((is_first ? second : first).failure() != "");  // untouched
  }
  is_done = true;
  updating.join();
  CHECK(runs_of(first) + runs_of(second) == kLaunches);
}

TEST_CASE("executors and graphs are made, launched and destroyed while a stream is capturing") {
  Call call(long_case());
  Call beside(group_case({150, 140}, 300, 4));
  CallArguments without_workspace = beside.arguments();
  without_workspace.workspace = nullptr;
  const OwnedStream stream;
  beside.device.poison_outputs();
  const CapturedGraph captured([&](hipStream_t capturing) {
    const Executor executor(beside.executor.problem());
    Graph graph(executor, without_workspace);
    graph.launch(stream.get());
    graph.update(beside.arguments());
    call.executor.enqueue(call.arguments(), capturing);
  });
  stream.synchronize();
  CHECK(beside.failure() == "");
  check_replay(call, [&](hipStream_t s) { captured.launch(s); });
}

TEST_CASE("launch, update and destruction return while the stream that they are on is held up") {
  Call first(long_case(21));
  Call second(group_case({20, 250, 0, 130}, kCapacity, 22));
  Call third(group_case({150, 140}, 300, 4));
  CallArguments without_workspace = first.arguments();
  without_workspace.workspace = nullptr;
  auto graph = std::make_unique<Graph>(first.executor, without_workspace);
  auto captured = std::make_unique<CapturedGraph>([&](hipStream_t s) { third.executor.enqueue(third.arguments(), s); });
  for (Call* call : {&first, &second, &third}) call->device.poison_outputs();
  const OwnedStream stream;
  {
    const HeldStream held(stream.get());
    graph->launch(stream.get());
    graph->update(second.arguments());
    graph->launch(stream.get());
    graph.reset();
    captured->launch(stream.get());
    CHECK(!held.has_passed());
  }
  stream.synchronize();
  for (Call* call : {&first, &second, &third}) CHECK(call->failure() == "");
}

TEST_CASE("pinned memory of a capture comes back with the next call, of a Graph with the next Graph or a plan's end") {
  PinnedHeap pinned;
  Call call(long_case(), pinned.options());
  const Executor other(call.executor.problem());
  const OwnedStream stream;
  const auto call_once = [&] {
    other.enqueue(call.arguments(), stream.get());
    stream.synchronize();
  };
  {
    const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
    captured.launch(stream.get());
    stream.synchronize();
  }
  CHECK(eventually([&] { return (call_once(), pinned.released == 1); }));  // user objects may go a moment later
  const auto use_graph = [&] {
    Graph graph(call.executor, call.arguments());
    graph.launch(stream.get());
    stream.synchronize();
  };
  use_graph();
  call_once();
  CHECK(pinned.released == 1);  // what a Graph was is let go by what may wait only
  const Graph next(other, call.arguments());
  CHECK(pinned.released == 2);
  use_graph();
  CHECK(pinned.released == 2);
  { const Executor short_lived(call.executor.problem()); }
  CHECK(pinned.released == 3);
  CHECK(pinned.made == 3);
}

TEST_CASE("what a graph leaves is freed by the next executor or graph, or on demand, and not by the plan's end") {
  PinnedHeap pinned;
  Call call(long_case(), pinned.options());
  const OwnedStream stream;
  const auto make_and_drop_a_graph = [&] {
    Graph graph(call.executor, call.arguments());
    graph.launch(stream.get());
    stream.synchronize();
  };
  make_and_drop_a_graph();
  CHECK(pinned.released == 0);
  const Executor next(call.executor.problem());
  CHECK(pinned.released == 1);
  make_and_drop_a_graph();
  CHECK(pinned.released == 1);
  release_unused_memory();
  CHECK(pinned.released == 2);
}

TEST_CASE("destroying the last graph of a plan does not wait, whatever other graphs left") {
  Call call(long_case());
  CallArguments without_workspace = call.arguments();
  without_workspace.workspace = nullptr;
  const OwnedStream stream, busy;
  auto last = std::make_unique<Graph>(Executor(call.executor.problem()), call.arguments());
  last->launch(stream.get());
  {
    Graph other(call.executor, without_workspace);
    other.launch(stream.get());
    stream.synchronize();
  }
  Gate gate(busy.get());
  std::atomic<bool> is_destroyed{false};
  std::thread destroyer([&] {
    last.reset();
    is_destroyed = true;
  });
  CHECK(eventually([&] { return is_destroyed.load(); }));
  gate.open();
  destroyer.join();
  busy.synchronize();
}

TEST_CASE("a graph is printed while another thread updates it") {
  Call first(long_case(1));
  Call second(long_case(2));
  Graph graph(first.executor, first.arguments());
  const std::string text = graph.dot();
  std::thread updater([&] {
    for (int i = 0; i < 100; ++i) graph.update((i % 2 == 0 ? second : first).arguments());
  });
  for (int i = 0; i < 100; ++i) CHECK(graph.dot() == text);
  updater.join();
}
