#include "support.hpp"

using test::Gate;

TEST_CASE("captured work runs once per launch and never at capture") {
  const test::Stream stream;
  std::atomic<int> calls{0};
  const test::Graph graph(test::capture(stream, [&] {
    REQUIRE_OK(hipLaunchHostFunc(stream, test::count_call, &calls));
    REQUIRE_OK(hipLaunchHostFunc(stream, test::count_call, &calls));
  }));
  CHECK_EQ(calls.load(), 0);
  CHECK_EQ(test::node_count(graph), 2);
  CHECK_EQ(test::edge_count(graph), 1);
  const test::Exec exec(graph);
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(calls.load(), 2);
}

TEST_CASE("a fork through events joins the capture and gives a diamond") {
  const test::Stream origin, side;
  const test::Event forked(hipEventDisableTiming), joined(hipEventDisableTiming);
  const test::Buffer<int> buffer(4);
  const test::Graph graph(test::capture(origin, [&] {
    REQUIRE_OK(hipMemsetAsync(buffer, 0, 4, origin));
    REQUIRE_OK(hipEventRecord(forked, origin));
    REQUIRE_OK(hipStreamWaitEvent(side, forked, 0));
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    REQUIRE_OK(hipStreamIsCapturing(side, &status));
    CHECK_EQ(status, hipStreamCaptureStatusActive);
    REQUIRE_OK(hipMemsetAsync(buffer.get() + 1, 0, 4, side));
    REQUIRE_OK(hipMemsetAsync(buffer.get() + 2, 0, 4, origin));
    REQUIRE_OK(hipEventRecord(joined, side));
    REQUIRE_OK(hipStreamWaitEvent(origin, joined, 0));
    REQUIRE_OK(hipMemsetAsync(buffer.get() + 3, 0, 4, origin));
  }));
  CHECK_EQ(test::node_count(graph), 4);
  CHECK_EQ(test::edge_count(graph), 4);
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  REQUIRE_OK(hipStreamIsCapturing(side, &status));
  CHECK_EQ(status, hipStreamCaptureStatusNone);
}

TEST_CASE("a fork that is not joined ends the capture with an error") {
  const test::Stream origin, side;
  const test::Event event;
  REQUIRE_OK(hipStreamBeginCapture(origin, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipEventRecord(event, origin));
  REQUIRE_OK(hipStreamWaitEvent(side, event, 0));
  REQUIRE_OK(hipLaunchHostFunc(
      side, [](void*) {}, nullptr));
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamEndCapture(origin, &graph), hipErrorStreamCaptureUnjoined);
  CHECK_EQ(graph, nullptr);
  CHECK_OK(hipLaunchHostFunc(
      side, [](void*) {}, nullptr));
  CHECK_OK(hipStreamSynchronize(side));
}

TEST_CASE("a fork without work of its own needs no join") {
  const test::Stream origin, side;
  const test::Event event;
  const test::Graph graph(test::capture(origin, [&] {
    REQUIRE_OK(hipEventRecord(event, origin));
    REQUIRE_OK(hipStreamWaitEvent(side, event, 0));
    REQUIRE_OK(hipLaunchHostFunc(
        origin, [](void*) {}, nullptr));
  }));
  CHECK_EQ(test::node_count(graph), 1);
}

TEST_CASE("only the first stream ends a capture, and only on its thread unless relaxed") {
  const test::Stream origin, side;
  const test::Event event;
  hipGraph_t graph = nullptr;
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    CAPTURE(mode);
    REQUIRE_OK(hipStreamBeginCapture(origin, mode));
    REQUIRE_OK(hipEventRecord(event, origin));
    REQUIRE_OK(hipStreamWaitEvent(side, event, 0));
    CHECK_IS(hipStreamEndCapture(side, &graph), hipErrorStreamCaptureUnmatched);
    hipError_t elsewhere = hipSuccess;
    std::thread([&] { elsewhere = hipStreamEndCapture(origin, &graph); }).join();
    if (mode == hipStreamCaptureModeRelaxed) {
      CHECK_OK(elsewhere);
    } else {
      CHECK_IS(elsewhere, hipErrorStreamCaptureWrongThread);
      CHECK_OK(hipStreamEndCapture(origin, &graph));
    }
    CHECK_OK(hipGraphDestroy(graph));
  }
}

TEST_CASE("captures that would merge are both invalidated") {
  const test::Stream first, second;
  const test::Event event;
  REQUIRE_OK(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipStreamBeginCapture(second, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipEventRecord(event, first));
  CHECK_IS(hipStreamWaitEvent(second, event, 0), hipErrorStreamCaptureMerge);
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);
  CHECK_IS(hipStreamEndCapture(second, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_CASE("waiting in a capture for work outside of it is isolation's error") {
  const test::Stream outside, stream;
  const test::Event event;
  REQUIRE_OK(hipEventRecord(event, outside));
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  CHECK_IS(hipStreamWaitEvent(stream, event, 0), hipErrorStreamCaptureIsolation);
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_CASE("wrong uses of begin and end are told apart") {
  const test::Stream stream;
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal), hipErrorStreamCaptureUnsupported);
  CHECK_IS(hipStreamBeginCapture(stream, static_cast<hipStreamCaptureMode>(3)), hipErrorInvalidValue);
  CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorIllegalState);
  CHECK_IS(hipStreamEndCapture(nullptr, &graph), hipErrorIllegalState);
  CHECK_IS(hipStreamEndCapture(stream, nullptr), hipErrorInvalidValue);
  CHECK_IS(hipStreamBeginCapture(test::garbage_stream(), hipStreamCaptureModeGlobal), hipErrorContextIsDestroyed);
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  CHECK_IS(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipErrorIllegalState);
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  CHECK_OK(hipGraphDestroy(graph));
}

TEST_CASE("destroying a stream drops the capture that it began") {
  hipStream_t stream = nullptr;
  REQUIRE_OK(hipStreamCreate(&stream));
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  REQUIRE_OK(hipStreamDestroy(stream));
  void* memory = nullptr;
  CHECK_OK(hipMalloc(&memory, 8));
  CHECK_OK(hipFree(memory));
}

TEST_CASE("capture info names the capture, its graph and where the stream stands") {
  const test::Stream stream;
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  unsigned long long id = 0, second_id = 0;
  REQUIRE_OK(hipStreamGetCaptureInfo(stream, &status, &id));
  CHECK_EQ(status, hipStreamCaptureStatusNone);
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  hipGraph_t graph = nullptr, ended = nullptr;
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
  CHECK_EQ(status, hipStreamCaptureStatusActive);
  CHECK_NE(id, 0);
  REQUIRE_EQ(count, 1);
  hipGraphNodeType type{};
  CHECK_OK(hipGraphNodeGetType(nodes[0], &type));
  CHECK_EQ(type, hipGraphNodeTypeHost);
  CHECK_IS(hipGraphDestroy(graph), hipErrorIllegalState);
  CHECK_IS(hipGraphDestroyNode(nodes[0]), hipErrorIllegalState);
  // A node added by hand can take part in the stream's order.
  hipGraphNode_t extra = nullptr;
  REQUIRE_OK(hipGraphAddEmptyNode(&extra, graph, nullptr, 0));
  REQUIRE_OK(hipStreamUpdateCaptureDependencies(stream, &extra, 1, hipStreamAddCaptureDependencies));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  REQUIRE_OK(hipStreamEndCapture(stream, &ended));
  CHECK_EQ(ended, graph);
  CHECK_EQ(test::edge_count(graph), 2);
  CHECK_OK(hipGraphDestroy(graph));
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipStreamGetCaptureInfo(stream, &status, &second_id));
  CHECK_NE(second_id, id);
  CHECK_IS(hipStreamUpdateCaptureDependencies(stream, nullptr, 1, 0), hipErrorInvalidValue);
  CHECK_IS(hipStreamUpdateCaptureDependencies(stream, nullptr, 0, 20), hipErrorInvalidValue);
  REQUIRE_OK(hipStreamEndCapture(stream, &ended));
  CHECK_IS(hipStreamUpdateCaptureDependencies(stream, nullptr, 0, 0), hipErrorIllegalState);
  CHECK_OK(hipGraphDestroy(ended));
}

TEST_CASE("what a stream's place in its capture no longer holds need not be joined") {
  const test::Stream origin, fork;
  const test::Event forked, joined;
  const auto call = [](hipStream_t stream) {
    REQUIRE_OK(hipLaunchHostFunc(
        stream, [](void*) {}, nullptr));
  };
  REQUIRE_OK(hipStreamBeginCapture(origin, hipStreamCaptureModeGlobal));
  call(origin);
  REQUIRE_OK(hipEventRecord(forked, origin));
  REQUIRE_OK(hipStreamWaitEvent(fork, forked, 0));
  call(fork);
  hipStreamCaptureStatus status{};
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipStreamGetCaptureInfo_v2(origin, &status, nullptr, &graph));
  hipGraphNode_t apart = nullptr;
  REQUIRE_OK(hipGraphAddEmptyNode(&apart, graph, nullptr, 0));
  hipError_t expected = hipErrorStreamCaptureUnjoined;
  SUBCASE("the fork was joined before") {
    REQUIRE_OK(hipEventRecord(joined, fork));
    REQUIRE_OK(hipStreamWaitEvent(origin, joined, 0));
    REQUIRE_OK(hipStreamUpdateCaptureDependencies(origin, &apart, 1, hipStreamSetCaptureDependencies));
    expected = hipSuccess;
  }
  SUBCASE("the fork's own place was emptied") {
    REQUIRE_OK(hipStreamUpdateCaptureDependencies(fork, nullptr, 0, hipStreamSetCaptureDependencies));
    expected = hipSuccess;
  }
  SUBCASE("the fork is still open") {
    REQUIRE_OK(hipStreamUpdateCaptureDependencies(origin, &apart, 1, hipStreamSetCaptureDependencies));
  }
  call(origin);
  graph = nullptr;
  CHECK_IS(hipStreamEndCapture(origin, &graph), expected);
  if (graph != nullptr) CHECK_OK(hipGraphDestroy(graph));
}

TEST_CASE("a capture can extend a child graph, and what holds that stays as it is until the end") {
  const test::Stream stream;
  const test::Graph outer, inner;
  std::atomic<int> calls{0};
  hipGraphNode_t node = nullptr;
  hipGraph_t child = nullptr, ended = nullptr;
  REQUIRE_OK(hipGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
  REQUIRE_OK(hipGraphChildGraphNodeGetGraph(node, &child));
  REQUIRE_OK(hipStreamBeginCaptureToGraph(stream, child, nullptr, nullptr, 0, hipStreamCaptureModeGlobal));
  REQUIRE_OK(hipLaunchHostFunc(stream, test::count_call, &calls));
  hipGraphExec_t exec = nullptr;
  CHECK_IS(hipGraphInstantiate(&exec, outer, nullptr, nullptr, 0), hipErrorIllegalState);
  CHECK_IS(hipGraphDestroyNode(node), hipErrorIllegalState);
  CHECK_IS(hipGraphDestroy(outer), hipErrorIllegalState);
  REQUIRE_OK(hipStreamEndCapture(stream, &ended));
  CHECK_EQ(ended, child);
  const test::Exec run(outer);
  REQUIRE_OK(hipGraphLaunch(run, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(calls.load(), 1);
}

TEST_CASE("a capture can extend a graph") {
  const test::Stream stream;
  const test::Graph graph;
  hipGraphNode_t first = nullptr;
  REQUIRE_OK(hipGraphAddEmptyNode(&first, graph, nullptr, 0));
  const auto mode = hipStreamCaptureModeGlobal;
  CHECK_IS(hipStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, mode), hipErrorInvalidValue);
  CHECK_IS(hipStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 1, mode), hipErrorInvalidValue);
  REQUIRE_OK(hipStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, mode));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  hipGraph_t ended = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &ended));
  CHECK_EQ(ended, static_cast<hipGraph_t>(graph));
  CHECK_EQ(test::node_count(graph), 2);
  CHECK_EQ(test::edge_count(graph), 1);
}

TEST_CASE("a graph launched in a capture becomes a child graph") {
  const test::Stream stream;
  std::atomic<int> calls{0};
  const test::Graph inner(
      test::capture(stream, [&] { REQUIRE_OK(hipLaunchHostFunc(stream, test::count_call, &calls)); }));
  auto inner_exec = std::make_unique<test::Exec>(inner);
  const test::Graph outer(test::capture(stream, [&] {
    REQUIRE_OK(hipGraphLaunch(*inner_exec, stream));
    REQUIRE_OK(hipGraphLaunch(*inner_exec, stream));
  }));
  inner_exec.reset();
  CHECK_EQ(test::node_count(outer), 2);
  const test::Exec exec(outer);
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(calls.load(), 2);
}

TEST_CASE("external events become nodes of the capture") {
  const test::Stream stream, other;
  const test::Event event;
  const test::Graph graph(test::capture(stream, [&] {
    REQUIRE_OK(hipEventRecordWithFlags(event, stream, hipEventRecordExternal));
    REQUIRE_OK(hipStreamWaitEvent(stream, event, hipEventWaitExternal));
  }));
  CHECK_EQ(test::node_count(graph), 2);
  const test::Exec exec(graph);
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  CHECK_OK(hipEventSynchronize(event));
}
