#include "support.hpp"

using test::Gate;

TEST_CASE("operations of one stream run in order") {
  const test::Stream stream;
  static constexpr int kSteps = 2000;
  std::vector<int> seen;
  struct Step {
    std::vector<int>* seen;
    int value;
  };
  std::vector<Step> steps(kSteps);
  for (int i = 0; i < kSteps; ++i) {
    steps[static_cast<std::size_t>(i)] = {&seen, i};
    REQUIRE_OK(hipLaunchHostFunc(
        stream,
        [](void* data) {
          const auto* step = static_cast<Step*>(data);
          step->seen->push_back(step->value);
        },
        &steps[static_cast<std::size_t>(i)]));
  }
  REQUIRE_OK(hipStreamSynchronize(stream));
  REQUIRE_EQ(seen.size(), static_cast<std::size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i) CHECK_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_CASE("streams run side by side") {
  const test::Stream first, second;
  Gate gate;
  std::atomic<int> calls{0};
  REQUIRE_OK(hipLaunchHostFunc(first, Gate::host_function, &gate));
  REQUIRE_OK(hipLaunchHostFunc(second, test::count_call, &calls));
  REQUIRE_OK(hipStreamSynchronize(second));
  CHECK_EQ(calls.load(), 1);
  CHECK_IS(hipStreamQuery(first), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(first));
  CHECK_OK(hipStreamQuery(first));
}

TEST_CASE("many blocked host functions don't block another stream") {
  static constexpr int kStreams = 40;
  Gate gate;
  std::vector<std::unique_ptr<test::Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<test::Stream>());
    REQUIRE_OK(hipLaunchHostFunc(*streams.back(), Gate::host_function, &gate));
  }
  const test::Stream other;
  std::atomic<int> calls{0};
  REQUIRE_OK(hipLaunchHostFunc(other, test::count_call, &calls));
  REQUIRE_OK(hipStreamSynchronize(other));
  CHECK_EQ(calls.load(), 1);
  gate.open();
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_FALSE(gate.timed_out());
}

TEST_CASE("the null stream waits for blocking streams, and they for it") {
  const test::Stream blocking(hipStreamDefault), other(hipStreamDefault);
  Gate gate;
  std::atomic<int> order{0};
  int null_saw = -1, other_saw = -1;
  REQUIRE_OK(hipLaunchHostFunc(blocking, Gate::host_function, &gate));
  REQUIRE_OK(hipLaunchHostFunc(blocking, test::count_call, &order));
  struct Look {
    std::atomic<int>* order;
    int* saw;
  } null_look{&order, &null_saw}, other_look{&order, &other_saw};
  const auto look = [](void* data) {
    auto* l = static_cast<Look*>(data);
    *l->saw = l->order->fetch_add(1);
  };
  REQUIRE_OK(hipLaunchHostFunc(nullptr, look, &null_look));
  REQUIRE_OK(hipLaunchHostFunc(other, look, &other_look));
  CHECK_IS(hipStreamQuery(nullptr), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(other));
  CHECK_EQ(null_saw, 1);
  CHECK_EQ(other_saw, 2);
}

TEST_CASE("non-blocking streams don't wait for the null stream") {
  const test::Stream independent(hipStreamNonBlocking);
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(hipStreamLegacy, Gate::host_function, &gate));
  std::atomic<int> calls{0};
  REQUIRE_OK(hipLaunchHostFunc(independent, test::count_call, &calls));
  REQUIRE_OK(hipStreamSynchronize(independent));
  CHECK_EQ(calls.load(), 1);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(nullptr));
}

TEST_CASE("an event waited for by the null stream holds up blocking streams behind it") {
  const test::Stream source(hipStreamNonBlocking), blocking(hipStreamDefault);
  const test::Event event(hipEventDisableTiming);
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(source, Gate::host_function, &gate));
  REQUIRE_OK(hipEventRecord(event, source));
  REQUIRE_OK(hipStreamWaitEvent(nullptr, event, 0));
  REQUIRE_OK(hipLaunchHostFunc(
      blocking, [](void*) {}, nullptr));
  CHECK_IS(hipStreamQuery(blocking), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(blocking));
}

TEST_CASE("each thread has its own per-thread stream") {
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(hipStreamPerThread, Gate::host_function, &gate));
  std::thread([] {
    std::atomic<int> calls{0};
    REQUIRE_OK(hipLaunchHostFunc(hipStreamPerThread, test::count_call, &calls));
    REQUIRE_OK(hipStreamSynchronize(hipStreamPerThread));
    CHECK_EQ(calls.load(), 1);
    // Pending work of a thread that ends isn't lost.
    REQUIRE_OK(hipLaunchHostFunc(
        hipStreamPerThread, [](void*) {}, nullptr));
  }).join();
  gate.open();
  REQUIRE_OK(hipDeviceSynchronize());
}

TEST_CASE("destroying a stream lets its pending work finish") {
  hipStream_t stream = nullptr;
  REQUIRE_OK(hipStreamCreate(&stream));
  Gate gate;
  std::atomic<int> calls{0};
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  REQUIRE_OK(hipLaunchHostFunc(stream, test::count_call, &calls));
  REQUIRE_OK(hipStreamDestroy(stream));
  CHECK_EQ(calls.load(), 0);
  gate.open();
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_EQ(calls.load(), 1);
}

TEST_CASE("handles of destroyed streams and garbage are errors") {
  hipStream_t stream = nullptr;
  REQUIRE_OK(hipStreamCreate(&stream));
  REQUIRE_OK(hipStreamDestroy(stream));
  for (const hipStream_t bad : {stream, test::garbage_stream()}) {
    CHECK_IS(hipStreamDestroy(bad), hipErrorContextIsDestroyed);
    CHECK_IS(hipStreamQuery(bad), hipErrorContextIsDestroyed);
    CHECK_IS(hipStreamSynchronize(bad), hipErrorContextIsDestroyed);
    CHECK_IS(hipLaunchHostFunc(
                 bad, [](void*) {}, nullptr),
             hipErrorContextIsDestroyed);
    unsigned flags = 0;
    CHECK_IS(hipStreamGetFlags(bad, &flags), hipErrorContextIsDestroyed);
  }
  CHECK_IS(hipStreamDestroy(nullptr), hipErrorInvalidResourceHandle);
  CHECK_IS(hipStreamCreate(nullptr), hipErrorInvalidValue);
  CHECK_IS(hipStreamCreateWithFlags(&stream, 0x80), hipErrorInvalidValue);
}

TEST_CASE("a stream tells its flags, priority and device") {
  int least = 0, greatest = 0;
  REQUIRE_OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK_LT(greatest, least);
  hipStream_t stream = nullptr;
  REQUIRE_OK(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, greatest - 5));
  int priority = 0, device = -1;
  unsigned flags = 0;
  CHECK_OK(hipStreamGetPriority(stream, &priority));
  CHECK_OK(hipStreamGetFlags(stream, &flags));
  CHECK_OK(hipStreamGetDevice(stream, &device));
  CHECK_EQ(priority, greatest);
  CHECK_EQ(flags, static_cast<unsigned>(hipStreamNonBlocking));
  CHECK_EQ(device, 0);
  REQUIRE_OK(hipStreamDestroy(stream));
}

TEST_CASE("many threads use many streams at once") {
  static constexpr int kThreads = 8, kRounds = 200;
  const test::Buffer<int> buffer(64 * kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const test::Stream stream(t % 2 == 0 ? hipStreamDefault : hipStreamNonBlocking);
      const test::Buffer<int> host(64, test::Where::kPinned);
      int* const mine = buffer.get() + 64 * t;
      for (int i = 0; i < kRounds; ++i) {
        if (hipMemsetD32Async(mine, i, 64, stream) != hipSuccess) ++wrong;
        if (hipMemcpyAsync(host, mine, 64 * sizeof(int), hipMemcpyDeviceToHost, stream) != hipSuccess) ++wrong;
        if (hipStreamSynchronize(stream) != hipSuccess) ++wrong;
        if (host.get()[0] != i || host.get()[63] != i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}
