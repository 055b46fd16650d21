#include "support.hpp"

using test::Where;

namespace {

void add_to(int* out, int amount) { *out += amount; }

struct KernelCall {
  int* out;
  int amount;
  void* args[2] = {&out, &amount};
  hipKernelNodeParams params{};
  KernelCall(int* o, int a) : out(o), amount(a) {
    params.func = hiphost::kernel(add_to);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = args;
  }
};

void run(hipGraphExec_t exec) {
  const test::Stream stream;
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
}

}  // namespace

TEST_CASE("an executable's kernel parameters change, its launches in flight keep theirs") {
  const test::Buffer<int> value(1, Where::kManaged);
  *value.get() = 0;
  KernelCall one(value, 1), hundred(value, 100);
  const test::Graph graph;
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &one.params));
  hipKernelNodeParams got{};
  REQUIRE_OK(hipGraphKernelNodeGetParams(node, &got));
  CHECK_EQ(got.func, one.params.func);
  CHECK_EQ(*static_cast<int*>(got.kernelParams[1]), 1);
  const test::Exec exec(graph);
  const test::Stream stream;
  test::Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, test::Gate::host_function, &gate));
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipGraphExecKernelNodeSetParams(exec, node, &hundred.params));
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(*value.get(), 101);
  // The graph itself is unchanged.
  const test::Exec again(graph);
  run(again);
  CHECK_EQ(*value.get(), 102);
}

TEST_CASE("copies, sets and host nodes of an executable change") {
  const test::Buffer<int> device(2), out(2, Where::kPinned);
  std::atomic<int> first{0}, second{0};
  const test::Graph graph;
  hipGraphNode_t set = nullptr, copy = nullptr, call = nullptr;
  hipMemsetParams params = test::memset_params(device, 1, 4, 1);
  hipHostNodeParams host = test::host_params(test::count_call, &first);
  REQUIRE_OK(hipGraphAddMemsetNode(&set, graph, nullptr, 0, &params));
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, graph, &set, 1, out, device, 4, hipMemcpyDeviceToHost));
  REQUIRE_OK(hipGraphAddHostNode(&call, graph, &copy, 1, &host));
  const test::Exec exec(graph);
  run(exec);
  CHECK_EQ(out.get()[0], 1);
  params.dst = device.get() + 1;
  params.value = 2;
  host.userData = &second;
  REQUIRE_OK(hipGraphExecMemsetNodeSetParams(exec, set, &params));
  REQUIRE_OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, out.get() + 1, device.get() + 1, 4, hipMemcpyDeviceToHost));
  REQUIRE_OK(hipGraphExecHostNodeSetParams(exec, call, &host));
  run(exec);
  CHECK_EQ(out.get()[1], 2);
  CHECK_EQ(first.load(), 1);
  CHECK_EQ(second.load(), 1);

  // The direction of a copy is fixed, and parameters are checked as for a new node.
  const hipError_t wrong = hipErrorInvalidValue;
  CHECK_IS(hipGraphExecMemcpyNodeSetParams1D(exec, copy, device, out, 4, hipMemcpyHostToDevice), wrong);
  CHECK_IS(hipGraphExecMemcpyNodeSetParams1D(exec, copy, out, device, 400, hipMemcpyDeviceToHost), wrong);
  // What hipMemcpyDefault stands for here is the old direction, but it isn't how that was given.
  CHECK_IS(hipGraphExecMemcpyNodeSetParams1D(exec, copy, out, device, 4, hipMemcpyDefault), wrong);
  CHECK_IS(hipGraphExecMemcpyNodeSetParams1D(exec, set, out, device, 4, hipMemcpyDefault), wrong);
  CHECK_IS(hipGraphExecMemcpyNodeSetParams1D(nullptr, copy, out, device, 4, hipMemcpyDefault), wrong);
  CHECK_IS(hipGraphExecHostNodeSetParams(exec, copy, &host), wrong);
  host.fn = nullptr;
  CHECK_IS(hipGraphExecHostNodeSetParams(exec, call, &host), wrong);
  host.fn = test::count_call;
  const test::Graph other;
  hipGraphNode_t stranger = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&stranger, other, nullptr, 0, &host));
  CHECK_IS(hipGraphExecHostNodeSetParams(exec, stranger, &host), wrong);
}

TEST_CASE("a child graph of an executable changes to one of the same shape") {
  std::atomic<int> first{0}, second{0};
  const test::Graph graph, child, other, larger;
  hipHostNodeParams params = test::host_params(test::count_call, &first);
  hipGraphNode_t node = nullptr, inner = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&inner, child, nullptr, 0, &params));
  REQUIRE_OK(hipGraphAddHostNode(&inner, larger, nullptr, 0, &params));
  REQUIRE_OK(hipGraphAddHostNode(&inner, larger, nullptr, 0, &params));
  params.userData = &second;
  REQUIRE_OK(hipGraphAddHostNode(&inner, other, nullptr, 0, &params));
  hipGraphNode_t before = nullptr;
  REQUIRE_OK(hipGraphAddEmptyNode(&before, graph, nullptr, 0));
  REQUIRE_OK(hipGraphAddChildGraphNode(&node, graph, &before, 1, child));
  const test::Exec exec(graph);
  CHECK_IS(hipGraphExecChildGraphNodeSetParams(exec, node, larger), hipErrorInvalidValue);
  CHECK_IS(hipGraphExecChildGraphNodeSetParams(exec, node, nullptr), hipErrorInvalidValue);
  REQUIRE_OK(hipGraphExecChildGraphNodeSetParams(exec, node, other));
  run(exec);
  CHECK_EQ(first.load(), 0);
  CHECK_EQ(second.load(), 1);
}

TEST_CASE("an executable is updated from a graph of the same shape") {
  const test::Buffer<int> value(1, Where::kManaged);
  *value.get() = 0;
  KernelCall one(value, 1), ten(value, 10);
  const test::Graph graph, changed;
  hipGraphNode_t node = nullptr, error_node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &one.params));
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, &node, 1, &one.params));
  REQUIRE_OK(hipGraphAddKernelNode(&node, changed, nullptr, 0, &ten.params));
  REQUIRE_OK(hipGraphAddKernelNode(&node, changed, &node, 1, &ten.params));
  const test::Exec exec(graph);
  run(exec);
  CHECK_EQ(*value.get(), 2);
  hipGraphExecUpdateResult result{};
  REQUIRE_OK(hipGraphExecUpdate(exec, changed, &error_node, &result));
  CHECK_EQ(result, hipGraphExecUpdateSuccess);
  run(exec);
  CHECK_EQ(*value.get(), 22);
}

TEST_CASE("an update that doesn't fit says why, and changes nothing") {
  const test::Buffer<int> device(4), out(4, Where::kPinned);
  const test::Graph graph;
  hipGraphNode_t set = nullptr, copy = nullptr;
  hipMemsetParams params = test::memset_params(device, 6, 4, 1);
  REQUIRE_OK(hipGraphAddMemsetNode(&set, graph, nullptr, 0, &params));
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, graph, &set, 1, out, device, 4, hipMemcpyDeviceToHost));
  const test::Exec exec(graph);
  hipGraphExecUpdateResult result{};
  hipGraphNode_t error_node = nullptr, node = nullptr;
  params.value = 99;
  {
    const test::Graph more;
    REQUIRE_OK(hipGraphAddMemsetNode(&set, more, nullptr, 0, &params));
    CHECK_IS(hipGraphExecUpdate(exec, more, &error_node, &result), hipErrorGraphExecUpdateFailure);
    CHECK_EQ(result, hipGraphExecUpdateErrorTopologyChanged);
  }
  {
    // The count decides before any node is looked at, so no node is to blame.
    const test::Graph fewer;
    REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, fewer, nullptr, 0, out, device, 4, hipMemcpyDeviceToHost));
    error_node = copy;
    CHECK_IS(hipGraphExecUpdate(exec, fewer, &error_node, &result), hipErrorGraphExecUpdateFailure);
    CHECK_EQ(result, hipGraphExecUpdateErrorTopologyChanged);
    CHECK_EQ(error_node, nullptr);
  }
  {
    const test::Graph type;
    REQUIRE_OK(hipGraphAddMemsetNode(&set, type, nullptr, 0, &params));
    REQUIRE_OK(hipGraphAddMemsetNode(&node, type, &set, 1, &params));
    CHECK_IS(hipGraphExecUpdate(exec, type, &error_node, &result), hipErrorGraphExecUpdateFailure);
    CHECK_EQ(result, hipGraphExecUpdateErrorNodeTypeChanged);
    CHECK_EQ(error_node, node);
  }
  {
    const test::Graph edges;
    REQUIRE_OK(hipGraphAddMemsetNode(&set, edges, nullptr, 0, &params));
    REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, edges, nullptr, 0, out, device, 4, hipMemcpyDeviceToHost));
    CHECK_IS(hipGraphExecUpdate(exec, edges, &error_node, &result), hipErrorGraphExecUpdateFailure);
    CHECK_EQ(result, hipGraphExecUpdateErrorTopologyChanged);
  }
  {
    const test::Graph direction;
    REQUIRE_OK(hipGraphAddMemsetNode(&set, direction, nullptr, 0, &params));
    REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, direction, &set, 1, device, out, 4, hipMemcpyHostToDevice));
    CHECK_IS(hipGraphExecUpdate(exec, direction, &error_node, &result), hipErrorGraphExecUpdateFailure);
    CHECK_EQ(result, hipGraphExecUpdateErrorParametersChanged);
    CHECK_EQ(error_node, copy);
  }
  CHECK_IS(hipGraphExecUpdate(exec, nullptr, &error_node, &result), hipErrorInvalidValue);
  CHECK_IS(hipGraphExecUpdate(exec, graph, nullptr, &result), hipErrorInvalidValue);
  run(exec);
  CHECK_EQ(out.get()[0], 6);
}
