// The faults of graphs and lifetimes that others shipped: what must hold here.
#include <cstring>

#include "support.hpp"

using test::Where;

TEST_CASE("the first replay obeys every dependency, and so do the others") {
  // A chain through every kind of node; each replay must see this replay's input.
  const test::Stream stream, side;
  const test::Event forked(hipEventDisableTiming), joined(hipEventDisableTiming);
  static constexpr std::size_t kCount = 1 << 16;
  const test::Buffer<int> in(kCount, Where::kPinned), staged(kCount, Where::kPinned), out(kCount, Where::kPinned);
  const test::Buffer<int> a(kCount), b(kCount);
  struct Stage {
    const int* from;
    int* to;
  } stage{nullptr, staged.get()};
  const test::Buffer<int> fetched(kCount, Where::kPinned);
  stage.from = fetched.get();
  const test::Graph graph(test::capture(stream, [&] {
    REQUIRE_OK(hipMemcpyAsync(a, in, kCount * 4, hipMemcpyHostToDevice, stream));
    REQUIRE_OK(hipEventRecord(forked, stream));
    REQUIRE_OK(hipStreamWaitEvent(side, forked, 0));
    REQUIRE_OK(hipMemcpyAsync(fetched, a, kCount * 4, hipMemcpyDeviceToHost, side));
    REQUIRE_OK(hipLaunchHostFunc(
        side,
        [](void* data) {
          const auto* s = static_cast<Stage*>(data);
          for (std::size_t i = 0; i < kCount; ++i) s->to[i] = s->from[i] + 1;
        },
        &stage));
    REQUIRE_OK(hipMemcpyAsync(b, staged, kCount * 4, hipMemcpyHostToDevice, side));
    REQUIRE_OK(hipEventRecord(joined, side));
    REQUIRE_OK(hipStreamWaitEvent(stream, joined, 0));
    REQUIRE_OK(hipMemsetAsync(a, 0xFF, kCount * 4, stream));
    REQUIRE_OK(hipMemcpyAsync(out, b, kCount * 4, hipMemcpyDeviceToHost, stream));
  }));
  const test::Exec exec(graph);
  const auto replay = [&](int value) {
    std::fill(in.get(), in.get() + kCount, value);
    std::memset(out.get(), 0xFF, kCount * 4);
    REQUIRE_OK(hipGraphLaunch(exec, stream));
    REQUIRE_OK(hipStreamSynchronize(stream));
    return out.get()[0] == value + 1 && out.get()[kCount - 1] == value + 1;
  };
  CHECK(replay(41));
  for (int i = 0; i < 20; ++i) CHECK(replay(i));
}

TEST_CASE("a captured host function runs once per replay and its data lives as long as any executable") {
  // Destroy graph, clone and executables in every order; the object dies with the last of them.
  struct Data {
    std::atomic<int> calls{0};
    std::atomic<int>* destroyed;
  };
  for (int order = 0; order < 6; ++order) {
    CAPTURE(order);
    std::atomic<int> destroyed{0};
    auto* data = new Data;
    data->destroyed = &destroyed;
    const test::Stream stream;
    auto graph = std::make_unique<test::Graph>(test::capture(stream, [&] {
      REQUIRE_OK(hipLaunchHostFunc(
          stream, [](void* d) { static_cast<Data*>(d)->calls.fetch_add(1); }, data));
    }));
    CHECK_EQ(data->calls.load(), 0);
    hipUserObject_t object = nullptr;
    REQUIRE_OK(hipUserObjectCreate(
        &object, data,
        [](void* d) {
          auto* owned = static_cast<Data*>(d);
          owned->destroyed->fetch_add(1);
          delete owned;
        },
        1, hipUserObjectNoDestructorSync));
    REQUIRE_OK(hipGraphRetainUserObject(*graph, object, 1, hipGraphUserObjectMove));
    hipGraph_t made = nullptr;
    REQUIRE_OK(hipGraphClone(&made, *graph));
    auto clone = std::make_unique<test::Graph>(made);
    auto exec = std::make_unique<test::Exec>(*clone);
    for (int i = 1; i <= 5; ++i) {
      REQUIRE_OK(hipGraphLaunch(*exec, stream));
      REQUIRE_OK(hipStreamSynchronize(stream));
      CHECK_EQ(data->calls.load(), i);
    }
    const int permutation[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int step = 0; step < 3; ++step) {
      CHECK_EQ(destroyed.load(), 0);
      switch (permutation[order][step]) {
        case 0:
          graph.reset();
          break;
        case 1:
          clone.reset();
          break;
        default:
          exec.reset();
          break;
      }
    }
    CHECK(test::eventually([&] { return destroyed.load() == 1; }));
  }
}

TEST_CASE("a graph reads what its addresses hold at each replay, not what they held at capture") {
  const test::Stream stream;
  const test::Buffer<int> staging(1, Where::kPinned), device(1), out(1, Where::kPinned);
  *staging.get() = 1;
  const test::Graph graph(test::capture(stream, [&] {
    REQUIRE_OK(hipMemcpyAsync(device, staging, 4, hipMemcpyHostToDevice, stream));
    REQUIRE_OK(hipMemcpyAsync(out, device, 4, hipMemcpyDeviceToHost, stream));
  }));
  const test::Exec exec(graph);
  for (int i = 2; i < 6; ++i) {
    *staging.get() = i;
    REQUIRE_OK(hipGraphLaunch(exec, stream));
    REQUIRE_OK(hipStreamSynchronize(stream));
    CHECK_EQ(*out.get(), i);
  }
}

TEST_CASE("an executable destroyed in flight releases its user objects once, after it has run") {
  std::atomic<int> destroyed{0};
  test::Gate gate;
  const test::Stream stream;
  auto graph = std::make_unique<test::Graph>(
      test::capture(stream, [&] { REQUIRE_OK(hipLaunchHostFunc(stream, test::Gate::host_function, &gate)); }));
  hipUserObject_t object = nullptr;
  REQUIRE_OK(hipUserObjectCreate(&object, &destroyed, test::count_call, 1, hipUserObjectNoDestructorSync));
  REQUIRE_OK(hipGraphRetainUserObject(*graph, object, 1, hipGraphUserObjectMove));
  auto exec = std::make_unique<test::Exec>(*graph);
  REQUIRE_OK(hipGraphLaunch(*exec, stream));
  graph.reset();
  exec.reset();
  REQUIRE(test::eventually([&] { return gate.entered(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_EQ(destroyed.load(), 0);
  gate.open();
  CHECK(test::eventually([&] { return destroyed.load() == 1; }));
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_EQ(destroyed.load(), 1);
}

TEST_CASE("thousands of replays from several threads stay in order") {
  const test::Buffer<int> device(1);
  const test::Stream capture_stream;
  struct Counter {
    int value = 0;  // no atomic: launches of one executable are ordered
  } counter;
  const test::Graph graph(test::capture(capture_stream, [&] {
    REQUIRE_OK(hipMemsetAsync(device, 0, 4, capture_stream));
    REQUIRE_OK(hipLaunchHostFunc(
        capture_stream, [](void* data) { ++static_cast<Counter*>(data)->value; }, &counter));
  }));
  const test::Exec exec(graph);
  static constexpr int kThreads = 4, kLaunches = 500;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const test::Stream stream;
      for (int i = 0; i < kLaunches; ++i) {
        if (hipGraphLaunch(exec, stream) != hipSuccess) ++wrong;
      }
      if (hipStreamSynchronize(stream) != hipSuccess) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(counter.value, kThreads * kLaunches);
}
