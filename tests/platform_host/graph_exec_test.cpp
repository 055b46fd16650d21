#include "support.hpp"

using test::Gate;

namespace {

hipGraphNode_t host_node(hipGraph_t graph, hipHostFn_t function, void* data, std::vector<hipGraphNode_t> before = {}) {
  const hipHostNodeParams params = test::host_params(function, data);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&node, graph, before.data(), before.size(), &params));
  return node;
}

// Two of these end only if both run at once.
struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<bool> failed{false};
  static void join(void* data) {
    auto* meeting = static_cast<Meeting*>(data);
    meeting->arrived.fetch_add(1);
    if (!test::eventually([&] { return meeting->arrived.load() >= 2; })) meeting->failed = true;
  }
};

void meet_in_kernel(Meeting* meeting) { Meeting::join(meeting); }

}  // namespace

TEST_CASE("independent branches run side by side") {
  Meeting meeting;
  const test::Graph graph;
  const hipGraphNode_t root = host_node(
      graph, [](void*) {}, nullptr);
  host_node(graph, Meeting::join, &meeting, {root});
  host_node(graph, Meeting::join, &meeting, {root});
  const test::Exec exec(graph);
  const test::Stream stream;
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_FALSE(meeting.failed.load());
}

TEST_CASE("independent kernels of a graph run side by side") {
  Meeting meeting;
  Meeting* argument = &meeting;
  void* args[] = {&argument};
  hipKernelNodeParams params{};
  params.func = hiphost::kernel(meet_in_kernel);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = args;
  const test::Graph graph;
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  const test::Exec exec(graph);
  const test::Stream stream;
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_FALSE(meeting.failed.load());
}

TEST_CASE("one executable is in flight once at a time, also on different streams") {
  struct Overlap {
    std::atomic<int> inside{0}, runs{0};
    std::atomic<bool> seen{false};
  } overlap;
  const test::Graph graph;
  host_node(
      graph,
      [](void* data) {
        auto* o = static_cast<Overlap*>(data);
        if (o->inside.fetch_add(1) != 0) o->seen = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        o->inside.fetch_sub(1);
        o->runs.fetch_add(1);
      },
      &overlap);
  const test::Exec exec(graph);
  const test::Stream first, second;
  for (int i = 0; i < 20; ++i) {
    REQUIRE_OK(hipGraphLaunch(exec, first));
    REQUIRE_OK(hipGraphLaunch(exec, second));
  }
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK_EQ(overlap.runs.load(), 40);
  CHECK_FALSE(overlap.seen.load());
}

TEST_CASE("a launch comes after the stream's earlier work and before its later work") {
  const test::Stream stream;
  const test::Buffer<int> device(1), host(3, test::Where::kPinned);
  const test::Graph graph(test::capture(stream, [&] {
    REQUIRE_OK(hipMemcpyAsync(host.get() + 1, device, 4, hipMemcpyDeviceToHost, stream));
    REQUIRE_OK(hipMemsetD32Async(device, 2, 1, stream));
  }));
  const test::Exec exec(graph);
  for (int i = 0; i < 50; ++i) {
    REQUIRE_OK(hipMemsetD32Async(device, 1, 1, stream));
    REQUIRE_OK(hipGraphLaunch(exec, stream));
    REQUIRE_OK(hipMemcpyAsync(host.get() + 2, device, 4, hipMemcpyDeviceToHost, stream));
    REQUIRE_OK(hipStreamSynchronize(stream));
    CHECK_EQ(host.get()[1], 1);
    CHECK_EQ(host.get()[2], 2);
    host.get()[1] = host.get()[2] = 0;
  }
}

TEST_CASE("an empty graph can be launched, and orders nothing away") {
  const test::Graph graph;
  const test::Exec exec(graph);
  const test::Stream stream;
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  CHECK_IS(hipStreamQuery(stream), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
}

TEST_CASE("the executable may be destroyed while it runs") {
  Gate gate;
  std::atomic<int> calls{0};
  const test::Stream stream;
  auto graph = std::make_unique<test::Graph>();
  const hipGraphNode_t first = host_node(*graph, Gate::host_function, &gate);
  host_node(*graph, test::count_call, &calls, {first});
  auto exec = std::make_unique<test::Exec>(*graph);
  REQUIRE_OK(hipGraphLaunch(*exec, stream));
  REQUIRE_OK(hipGraphLaunch(*exec, stream));
  graph.reset();
  exec.reset();
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(calls.load(), 2);
}

TEST_CASE("cycles and wrong arguments are refused when instantiating and launching") {
  const test::Graph graph;
  const hipGraphNode_t a = host_node(
                           graph, [](void*) {}, nullptr),
                       b = host_node(graph, [](void*) {}, nullptr, {a});
  hipGraphExec_t exec = nullptr;
  CHECK_IS(hipGraphInstantiate(nullptr, graph, nullptr, nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphInstantiate(&exec, nullptr, nullptr, nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphInstantiateWithFlags(&exec, graph, 0x100), hipErrorInvalidValue);
  CHECK_IS(hipGraphInstantiateWithFlags(&exec, graph, hipGraphInstantiateFlagDeviceLaunch), hipErrorNotSupported);
  REQUIRE_OK(hipGraphAddDependencies(graph, &b, &a, 1));
  CHECK_IS(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), hipErrorInvalidValue);
  REQUIRE_OK(hipGraphRemoveDependencies(graph, &b, &a, 1));
  hipGraphInstantiateParams params{};
  params.flags = hipGraphInstantiateFlagUpload;
  REQUIRE_OK(hipGraphInstantiateWithParams(&exec, graph, &params));
  CHECK_EQ(params.result_out, hipGraphInstantiateSuccess);
  unsigned long long flags = 0;
  CHECK_OK(hipGraphExecGetFlags(exec, &flags));
  CHECK_EQ(flags, static_cast<unsigned long long>(hipGraphInstantiateFlagUpload));
  const test::Stream stream;
  CHECK_OK(hipGraphUpload(exec, stream));
  CHECK_IS(hipGraphLaunch(nullptr, stream), hipErrorInvalidValue);
  CHECK_IS(hipGraphLaunch(exec, test::garbage_stream()), hipErrorContextIsDestroyed);
  REQUIRE_OK(hipGraphExecDestroy(exec));
  CHECK_IS(hipGraphExecDestroy(exec), hipErrorInvalidValue);
  CHECK_IS(hipGraphLaunch(exec, stream), hipErrorInvalidValue);
}

TEST_CASE("nodes around a child graph wait for all of it") {
  struct Order {
    std::atomic<int> inner{0};
    int seen_before = -1, seen_after = -1;
  } order;
  const test::Graph child;
  for (int i = 0; i < 5; ++i) {
    host_node(
        child, [](void* data) { static_cast<Order*>(data)->inner.fetch_add(1); }, &order);
  }
  const test::Graph graph;
  const hipGraphNode_t before = host_node(
      graph, [](void* data) { static_cast<Order*>(data)->seen_before = static_cast<Order*>(data)->inner.load(); },
      &order);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddChildGraphNode(&node, graph, &before, 1, child));
  host_node(graph, [](void* data) { static_cast<Order*>(data)->seen_after = static_cast<Order*>(data)->inner.load(); },
            &order, {node});
  const test::Exec exec(graph);
  const test::Stream stream;
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(order.seen_before, 0);
  CHECK_EQ(order.seen_after, 5);
}

TEST_CASE("event nodes record and wait across launches") {
  const test::Event start, stop, gate_event;
  const test::Stream stream, other;
  Gate gate;
  const test::Graph graph;
  hipGraphNode_t wait = nullptr, first = nullptr, last = nullptr;
  REQUIRE_OK(hipGraphAddEventWaitNode(&wait, graph, nullptr, 0, gate_event));
  REQUIRE_OK(hipGraphAddEventRecordNode(&first, graph, &wait, 1, start));
  const hipGraphNode_t work =
      host_node(graph, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }, nullptr, {first});
  REQUIRE_OK(hipGraphAddEventRecordNode(&last, graph, &work, 1, stop));
  const test::Exec exec(graph);
  for (int i = 0; i < 3; ++i) {
    if (i == 1) REQUIRE_OK(hipLaunchHostFunc(other, Gate::host_function, &gate));
    REQUIRE_OK(hipEventRecord(gate_event, other));
    REQUIRE_OK(hipGraphLaunch(exec, stream));
    if (i == 1) {
      CHECK_IS(hipEventQuery(stop), hipErrorNotReady);
      gate.open();
    }
    REQUIRE_OK(hipEventSynchronize(stop));
    float ms = 0;
    REQUIRE_OK(hipEventElapsedTime(&ms, start, stop));
    CHECK_GE(ms, 1.9f);
  }
}

TEST_CASE("copies, sets and hosts can be switched off in an executable") {
  const test::Buffer<int> device(2, test::Where::kManaged);
  const test::Graph graph;
  hipMemsetParams set = test::memset_params(device, 5, 4, 1);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  const hipGraphNode_t call = host_node(
      graph, [](void*) {}, nullptr);
  const test::Exec exec(graph);
  const test::Stream stream;
  device.get()[0] = 0;
  unsigned enabled = 0;
  CHECK_OK(hipGraphNodeGetEnabled(exec, node, &enabled));
  CHECK_EQ(enabled, 1u);
  CHECK_OK(hipGraphNodeSetEnabled(exec, node, 0));
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(device.get()[0], 0);
  CHECK_OK(hipGraphNodeSetEnabled(exec, node, 1));
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(device.get()[0], 5);
  CHECK_IS(hipGraphNodeSetEnabled(exec, call, 0), hipErrorInvalidValue);
}
