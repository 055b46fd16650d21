#include <algorithm>

#include "kernels.hpp"
#include "support.hpp"

using namespace test;

namespace {

constexpr std::uint32_t kCount = 256;

struct CaptureInfo {
  explicit CaptureInfo(hipStream_t stream) {
    REQUIRE_OK(hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &dependency_count));
  }
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* dependencies = nullptr;
  std::size_t dependency_count = 0;
};

hipGraph_t end_capture(hipStream_t stream) {
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  return graph;
}

std::vector<hipGraphNode_t> nodes_of(const Graph& graph) {
  std::size_t count = graph.node_count();
  std::vector<hipGraphNode_t> nodes(count);
  REQUIRE_OK(hipGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

std::size_t count_of_type(const Graph& graph, hipGraphNodeType wanted) {
  const std::vector<hipGraphNode_t> nodes = nodes_of(graph);
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [&](hipGraphNode_t node) {
    hipGraphNodeType type{};
    REQUIRE_OK(hipGraphNodeGetType(node, &type));
    return type == wanted;
  }));
}

}  // namespace

TEST_CASE("work captured on two streams is a graph that runs as captured, with every launch") {
  const Stream stream, side;
  const Event fork, join;
  const DeviceWords words(kCount);
  const PinnedWords source(kCount), result(kCount);
  std::atomic<int> runs{0};
  source.fill(100);

  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  REQUIRE_OK(hipEventRecord(fork, stream));
  REQUIRE_OK(hipStreamWaitEvent(side, fork));
  REQUIRE_OK(hipLaunchHostFunc(side, count_run, &runs));
  REQUIRE_OK(hipEventRecord(join, side));
  REQUIRE_OK(hipMemsetAsync(words.data(), 0, words.bytes(), stream));
  REQUIRE_OK(hipMemcpyAsync(words.data(), source.data(), words.bytes() / 2, hipMemcpyHostToDevice, stream));
  AddArguments arguments(words.data(), kCount, 1);
  REQUIRE_OK(hipLaunchKernel(add_kernel(), dim3(1), dim3(kCount), arguments.pointers, 0, stream));
  REQUIRE_OK(hipStreamWaitEvent(stream, join));
  REQUIRE_OK(hipMemcpyAsync(result.data(), words.data(), words.bytes(), hipMemcpyDeviceToHost, stream));
  const Graph graph(end_capture(stream));
  CHECK(runs == 0);

  CHECK(graph.node_count() == 5);
  CHECK(graph.edge_count() == 4);
  CHECK(count_of_type(graph, hipGraphNodeTypeHost) == 1);
  CHECK(count_of_type(graph, hipGraphNodeTypeMemset) == 1);
  CHECK(count_of_type(graph, hipGraphNodeTypeMemcpy) == 2);
  CHECK(count_of_type(graph, hipGraphNodeTypeKernel) == 1);

  const Executable executable(graph);
  for (const std::uint32_t filling : {5U, 6U}) {
    source.fill(filling);
    executable.run(stream);
    Words expected(kCount, 1);
    std::fill(expected.begin(), expected.begin() + kCount / 2, filling + 1);
    CHECK(result.read() == expected);
  }
  CHECK(runs == 2);
}

TEST_CASE("a stream tells that it captures, into which graph and behind which nodes") {
  const Stream stream;
  const DeviceWords words(kCount);
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  REQUIRE_OK(hipStreamIsCapturing(stream, &status));
  CHECK(status == hipStreamCaptureStatusNone);
  CHECK(CaptureInfo(stream).status == hipStreamCaptureStatusNone);

  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  REQUIRE_OK(hipStreamIsCapturing(stream, &status));
  CHECK(status == hipStreamCaptureStatusActive);
  CHECK(CaptureInfo(stream).dependency_count == 0);
  REQUIRE_OK(hipMemsetAsync(words.data(), 0, words.bytes(), stream));
  const CaptureInfo info(stream);
  CHECK(info.status == hipStreamCaptureStatusActive);
  CHECK(info.id != 0);
  CHECK(info.dependency_count == 1);
  REQUIRE(info.dependencies != nullptr);
  const hipGraphNode_t memset_node = info.dependencies[0];
  hipStreamCaptureStatus alone = hipStreamCaptureStatusNone;
  CHECK_OK(hipStreamGetCaptureInfo_v2(stream, &alone));
  CHECK(alone == hipStreamCaptureStatusActive);
  const Graph graph(end_capture(stream));
  CHECK(info.graph == graph);
  CHECK(nodes_of(graph) == std::vector{memset_node});
}

TEST_CASE("nodes added to a capturing graph by hand become what the stream goes on from") {
  const Stream stream;
  const DeviceWords words(kCount);
  std::atomic<int> runs{0};
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  REQUIRE_OK(hipMemsetAsync(words.data(), 0, words.bytes(), stream));

  const CaptureInfo before(stream);
  const hipGraphNode_t memset_node = before.dependencies[0];
  const hipHostNodeParams host{count_run, &runs};
  AddArguments three(words.data(), kCount, 3);
  hipKernelNodeParams kernel{};
  kernel.func = add_kernel();
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(kCount);
  kernel.kernelParams = three.pointers;
  std::vector<hipGraphNode_t> added(2);
  REQUIRE_OK(hipGraphAddHostNode(&added[0], before.graph, before.dependencies, before.dependency_count, &host));
  REQUIRE_OK(hipGraphAddKernelNode(&added[1], before.graph, before.dependencies, before.dependency_count, &kernel));
  SUBCASE("instead of what came before") {
    REQUIRE_OK(hipStreamUpdateCaptureDependencies(stream, added.data(), added.size(), hipStreamSetCaptureDependencies));
    CHECK(CaptureInfo(stream).dependency_count == 2);
  }
  SUBCASE("beside what came before") {
    REQUIRE_OK(hipStreamUpdateCaptureDependencies(stream, added.data(), added.size(), hipStreamAddCaptureDependencies));
    CHECK(CaptureInfo(stream).dependency_count == 3);
  }
  const std::size_t behind = CaptureInfo(stream).dependency_count;
  AddArguments four(words.data(), kCount, 4);
  REQUIRE_OK(hipLaunchKernel(add_kernel(), dim3(1), dim3(kCount), four.pointers, 0, stream));
  const hipGraphNode_t last = CaptureInfo(stream).dependencies[0];
  const Graph graph(end_capture(stream));

  std::size_t edges = graph.edge_count();
  REQUIRE(edges == 2 + behind);
  std::vector<hipGraphNode_t> from(edges), to(edges);
  REQUIRE_OK(hipGraphGetEdges(graph, from.data(), to.data(), &edges));
  CHECK(static_cast<std::size_t>(std::count(to.begin(), to.end(), last)) == behind);
  CHECK(std::count(from.begin(), from.end(), memset_node) == static_cast<std::ptrdiff_t>(behind));

  const Executable executable(graph);
  executable.run(stream);
  executable.run(stream);
  CHECK(words.read() == Words(kCount, 7));
  CHECK(runs == 2);
}

TEST_CASE("waiting for a capturing stream is refused and ends its capture") {
  const Stream stream;
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  CHECK_IS(hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  CHECK_OK(hipStreamIsCapturing(stream, &status));
  CHECK(status == hipStreamCaptureStatusInvalidated);
  CHECK(CaptureInfo(stream).status == hipStreamCaptureStatusInvalidated);
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  (void)hipGetLastError();
  CHECK_OK(hipStreamIsCapturing(stream, &status));
  CHECK(status == hipStreamCaptureStatusNone);
}

TEST_CASE("a capturing stream tells its device, and captures on") {
  const Stream stream;
  int device = -1;
  REQUIRE_OK(hipGetDevice(&device));
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    REQUIRE_OK(hipStreamBeginCapture(stream, mode));
    int found = -1;
    CHECK_OK(hipStreamGetDevice(stream, &found));
    CHECK(found == device);
    const Graph graph(end_capture(stream));
    CHECK(graph.node_count() == 0);
  }
}

TEST_CASE("waiting for the device invalidates a capture in relaxed mode too") {
  const Stream stream;
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  CHECK_IS(hipDeviceSynchronize(), hipErrorStreamCaptureUnsupported);
  hipGraph_t graph = nullptr;
  CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  (void)hipGetLastError();
}

TEST_CASE("a thread in relaxed mode may allocate while it captures") {
  const Stream stream;
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  CHECK_OK(hipThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == hipStreamCaptureModeGlobal);  // what a thread begins in
  {
    const Event event;
    void* device = nullptr;
    std::byte* pinned = nullptr;
    CHECK_OK(hipMalloc(&device, 64));
    CHECK_OK(hipHostMalloc(&pinned, 64, hipHostMallocDefault));
    CHECK_OK(hipEventQuery(event));
    CHECK_OK(hipHostFree(pinned));
    CHECK_OK(hipFree(device));
  }
  CHECK_OK(hipThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == hipStreamCaptureModeRelaxed);
  const Graph graph(end_capture(stream));
  CHECK(graph.node_count() == 0);
}
