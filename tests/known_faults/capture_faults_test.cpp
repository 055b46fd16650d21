// What must not happen while a stream is capturing, and what a capture must not depend on.
#include <map>
#include <stdexcept>

#include <doctest/doctest.h>

#include "peer_backward.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// What became of a capture.
struct Ended {
  hipError_t error = hipSuccess;
  std::size_t nodes = 0;
};

/// Captures what `record` does on a stream in global mode, and ends the capture whatever happens.
template <class Record>
Ended capture(const Record& record) {
  const OwnedStream stream;
  check_hip(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
  try {
    record(stream.get());
  } catch (const std::exception&) {
    // The capture has to be ended all the same.
  }
  hipGraph_t graph = nullptr;
  Ended ended;
  ended.error = hipStreamEndCapture(stream.get(), &graph);
  if (graph != nullptr) {
    ended.nodes = node_count(graph);
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
  }
  (void)hipGetLastError();
  return ended;
}

/// A side stream for each stream, made by the first eager call on it.
class PerStreamState {
 public:
  void warm_up(hipStream_t stream) { side_.emplace(stream, OwnedStream()); }
  /// Forks to the side and joins again. Without warm-up there is only the null stream.
  void enqueue(hipStream_t stream, void* memory) {
    const auto found = side_.find(stream);
    hipStream_t side = found == side_.end() ? nullptr : found->second.get();
    order(stream, side);
    check_hip(hipMemsetAsync(memory, 0, 64, side), "hipMemsetAsync");
    order(side, stream);
  }

 private:
  static void order(hipStream_t before, hipStream_t after) {
    hipEvent_t event = nullptr;
    check_hip(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreateWithFlags");
    const hipError_t recorded = hipEventRecord(event, before);
    const hipError_t waited = recorded == hipSuccess ? hipStreamWaitEvent(after, event, 0) : recorded;
    (void)hipEventDestroy(event);
    check_hip(waited, "order");
  }
  std::map<hipStream_t, OwnedStream> side_;
};

}  // namespace

TEST_CASE("fault 7: a memset of zero bytes") {
  const verification::GuardedBuffer memory(64);
  SUBCASE("wrong: accepted eagerly, refused in a capture") {
    const OwnedStream stream;
    CHECK(hipMemsetAsync(memory.data(), 0, 0, stream.get()) == hipSuccess);
    hipError_t captured = hipSuccess;
    (void)capture([&](hipStream_t capturing) { captured = hipMemsetAsync(memory.data(), 0, 0, capturing); });
    CHECK(captured != hipSuccess);
  }
  SUBCASE("right: a call with nothing to zero captures, whatever is empty") {
    for (const bool is_deterministic : {false, true}) {
      for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{}, {0, 0}}) {
        Case c = group_case(lengths, 0);
        c.problem.is_deterministic = is_deterministic;
        c.problem.max_seqlen_q = c.problem.max_seqlen_k = 300;  // kernels that would use an accumulator
        Call call(c);
        const Ended ended = capture([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
        CHECK(ended.error == hipSuccess);
      }
    }
  }
}

TEST_CASE("fault 8: an allocator that throws when part of the work is enqueued") {
  const auto no_memory = [](std::size_t) -> std::shared_ptr<void> { throw std::runtime_error("no pinned memory"); };
  SUBCASE("wrong: half a call is in the graph") {
    Call call(long_case());
    const Ended ended = capture([&](hipStream_t stream) {
      const CallArguments& a = call.arguments();
      check_hip(hipMemsetAsync(a.workspace, 0, static_cast<std::size_t>(a.workspace_bytes), stream), "hipMemsetAsync");
      (void)no_memory(64);
      call.executor.enqueue_kernels(a, stream);
    });
    CHECK(ended.nodes == 1);
  }
  SUBCASE("right: nothing is, and the capture ends cleanly") {
    ExecutorOptions options;
    options.pinned_host_alloc = no_memory;
    Call call(long_case(), options);
    bool threw = false;
    const Ended ended = capture([&](hipStream_t stream) {
      try {
        call.executor.enqueue(call.arguments(), stream);
      } catch (const std::runtime_error&) {
        threw = true;
      }
    });
    CHECK(threw);
    CHECK(ended.error == hipSuccess);
    CHECK(ended.nodes == 0);
  }
}

TEST_CASE("fault 9: pinned allocation or an event's query during a capture in global mode") {
  Call call(long_case());
  detail::StagingPool& pool = call.executor.state()->pool;
  SUBCASE("wrong: the allocation invalidates it") {
    const Ended ended = capture([&](hipStream_t) {
      void* memory = nullptr;
      (void)hipHostMalloc(&memory, 64, hipHostMallocDefault);
      if (memory != nullptr) (void)hipHostFree(memory);
    });
    CHECK(ended.error == hipErrorStreamCaptureInvalidated);
  }
  SUBCASE("wrong: so does the query") {
    const OwnedStream other;
    hipEvent_t event = nullptr;
    check_hip(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreateWithFlags");
    check_hip(hipEventRecord(event, other.get()), "hipEventRecord");
    const Ended ended = capture([&](hipStream_t) { (void)hipEventQuery(event); });
    check_hip(hipEventDestroy(event), "hipEventDestroy");
    CHECK(ended.error == hipErrorStreamCaptureInvalidated);
  }
  SUBCASE("right: though the pool has to allocate, and to ask about calls in flight") {
    const OwnedStream busy;
    Gate gate(busy.get());
    call.executor.enqueue(call.arguments(), busy.get());
    std::vector<detail::StagingLease> all_that_is_free;
    const std::size_t blocks = pool.counters().blocks;
    while (pool.counters().blocks == blocks) {
      all_that_is_free.emplace_back(pool.acquire(call.executor.state()->staging.bytes, {}));
    }
    const Ended ended = capture([&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    gate.open();
    busy.synchronize();
    CHECK(ended.error == hipSuccess);
    CHECK(ended.nodes > 0);
    CHECK(pool.counters().blocks > blocks + 1);
  }
}

TEST_CASE("fault 10: state made by the warm-up's stream is missing on others") {
  SUBCASE("wrong: the capture on a second stream fails") {
    const verification::GuardedBuffer memory(64);
    PerStreamState state;
    const OwnedStream first;
    state.warm_up(first.get());
    CHECK_NOTHROW(state.enqueue(first.get(), memory.data()));
    first.synchronize();
    std::string error;
    const Ended ended = capture([&](hipStream_t second) {
      try {
        state.enqueue(second, memory.data());
      } catch (const Error& e) {
        error = e.what();
      }
    });
    const bool is_caught = !error.empty() || ended.error != hipSuccess;
    CHECK(is_caught);
  }
  SUBCASE("right: warm-up on one stream, capture on a second, replay on a third") {
    Call call(long_case());
    const OwnedStream first, third;
    call.executor.enqueue(call.arguments(), first.get());
    first.synchronize();
    const CapturedGraph graph([&](hipStream_t second) { call.executor.enqueue(call.arguments(), second); });
    call.device.poison_outputs();
    graph.launch(third.get());
    third.synchronize();
    CHECK(call.failure() == "");
  }
}
