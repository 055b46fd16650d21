// Runs with FMHAX_HOST_DEVICES=2.
#include "support.hpp"

namespace {

// Makes a device current, and the first one again at the end.
class OnDevice {
 public:
  explicit OnDevice(int device) { REQUIRE_OK(hipSetDevice(device)); }
  ~OnDevice() { (void)hipSetDevice(0); }
};

}  // namespace

TEST_CASE("there are two devices, and each thread has its current one") {
  int count = 0, device = -1;
  REQUIRE_OK(hipGetDeviceCount(&count));
  REQUIRE_EQ(count, 2);
  const OnDevice second(1);
  REQUIRE_OK(hipGetDevice(&device));
  CHECK_EQ(device, 1);
  std::thread([] {
    int other = -1;
    CHECK_OK(hipGetDevice(&other));
    CHECK_EQ(other, 0);
  }).join();
}

TEST_CASE("streams and memory belong to the device that was current") {
  const OnDevice second(1);
  const test::Stream stream;
  const test::Buffer<int> buffer(4);
  REQUIRE_OK(hipSetDevice(0));
  int device = -1;
  REQUIRE_OK(hipStreamGetDevice(stream, &device));
  CHECK_EQ(device, 1);
  hipPointerAttribute_t attributes;
  REQUIRE_OK(hipPointerGetAttributes(&attributes, buffer.get()));
  CHECK_EQ(attributes.device, 1);
  // A stream of another device may be used; an event of another device may be waited for but not recorded.
  const test::Event event;
  CHECK_OK(hipMemsetAsync(buffer, 0, 16, stream));
  CHECK_IS(hipEventRecord(event, stream), hipErrorInvalidHandle);
  CHECK_OK(hipStreamSynchronize(stream));
}

TEST_CASE("events order work across devices") {
  const test::Stream first;
  const test::Event event(hipEventDisableTiming);
  test::Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(first, test::Gate::host_function, &gate));
  REQUIRE_OK(hipEventRecord(event, first));
  const OnDevice other(1);
  const test::Stream second;
  std::atomic<int> calls{0};
  REQUIRE_OK(hipStreamWaitEvent(second, event, 0));
  REQUIRE_OK(hipLaunchHostFunc(second, test::count_call, &calls));
  CHECK_IS(hipStreamQuery(second), hipErrorNotReady);
  CHECK_EQ(calls.load(), 0);
  gate.open();
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_EQ(calls.load(), 1);
}

TEST_CASE("synchronising a device doesn't wait for the other one, nor does its null stream") {
  const test::Stream first(hipStreamDefault);
  test::Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(first, test::Gate::host_function, &gate));
  {
    const OnDevice other(1);
    std::atomic<int> calls{0};
    REQUIRE_OK(hipLaunchHostFunc(nullptr, test::count_call, &calls));
    REQUIRE_OK(hipDeviceSynchronize());
    CHECK_EQ(calls.load(), 1);
  }
  CHECK_IS(hipStreamQuery(first), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipDeviceSynchronize());
}

TEST_CASE("memory is copied between devices") {
  const test::Buffer<int> near(1);
  const OnDevice other(1);
  const test::Buffer<int> far(1);
  int value = 0;
  REQUIRE_OK(hipMemsetD32(near, 77, 1));
  REQUIRE_OK(hipMemcpyPeer(far, 1, near, 0, 4));
  REQUIRE_OK(hipMemcpy(&value, far, 4, hipMemcpyDeviceToHost));
  CHECK_EQ(value, 77);
  CHECK_IS(hipMemcpyPeer(far, 2, near, 0, 4), hipErrorInvalidDevice);
  int can = 0;
  CHECK_OK(hipDeviceCanAccessPeer(&can, 0, 1));
  CHECK_EQ(can, 1);
  CHECK_OK(hipDeviceCanAccessPeer(&can, 1, 1));
  CHECK_EQ(can, 0);
}

TEST_CASE("a kernel node of an executable stays on the device that was current") {
  const auto add = [](hipGraph_t graph, hipGraphNode_t& node) {
    hipKernelNodeParams params{};
    params.func = hiphost::kernel(+[] {});
    params.gridDim = params.blockDim = dim3(1);
    REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return params;
  };
  const test::Graph graph, same, moved;
  hipGraphNode_t node = nullptr, culprit = nullptr, error_node = nullptr;
  const hipKernelNodeParams params = add(graph, node);
  const test::Exec exec(graph);
  hipGraphExecUpdateResult result{};
  add(same, culprit);
  CHECK_OK(hipGraphExecUpdate(exec, same, &error_node, &result));
  const OnDevice other(1);
  add(moved, culprit);
  CHECK_IS(hipGraphExecUpdate(exec, moved, &error_node, &result), hipErrorGraphExecUpdateFailure);
  CHECK_EQ(result, hipGraphExecUpdateErrorUnsupportedFunctionChange);
  CHECK_EQ(error_node, culprit);
  CHECK_IS(hipGraphExecKernelNodeSetParams(exec, node, &params), hipErrorInvalidValue);
}

TEST_CASE("a set node of an executable stays on its device") {
  const test::Buffer<int> near(1);
  const test::Graph graph;
  hipMemsetParams params = test::memset_params(near, 1, 4, 1);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &params));
  const test::Exec exec(graph);
  const OnDevice other(1);
  const test::Buffer<int> far(1);
  params.dst = far.get();
  CHECK_IS(hipGraphExecMemsetNodeSetParams(exec, node, &params), hipErrorInvalidValue);
}
