#include <algorithm>
#include <utility>

#include "kernels.hpp"
#include "node_params.hpp"
#include "support.hpp"

using namespace test;

namespace {

constexpr std::uint32_t kCount = 512;

}  // namespace

TEST_CASE("a graph built by hand, of every kind of node, does its work with every launch") {
  const Stream stream;
  const DeviceWords words(kCount);
  const PinnedWords source(kCount), result(kCount);
  std::atomic<int> runs{0};
  source.fill(5);
  const Graph graph;

  // A set of the front, a copy to the back, then a kernel over all; beside them a host function; at last a copy back.
  const hipMemsetParams set = set_params(words.data(), 0x01020304, kCount / 2);
  const hipHostNodeParams host{count_run, &runs};
  AddArguments arguments(words.data(), kCount, 1);
  const hipKernelNodeParams kernel = kernel_params(arguments, kCount);
  hipGraphNode_t set_node = nullptr, copy_node = nullptr, host_node = nullptr, kernel_node = nullptr, back = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy_node, graph, nullptr, 0, words.data() + kCount / 2, source.data(),
                                     source.bytes() / 2, hipMemcpyHostToDevice));
  REQUIRE_OK(hipGraphAddHostNode(&host_node, graph, nullptr, 0, &host));
  const hipGraphNode_t filled[] = {set_node, copy_node};
  REQUIRE_OK(hipGraphAddKernelNode(&kernel_node, graph, filled, 2, &kernel));
  const hipGraphNode_t all[] = {kernel_node, host_node};
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&back, graph, all, 2, result.data(), words.data(), result.bytes(),
                                     hipMemcpyDeviceToHost));

  const std::pair<hipGraphNode_t, hipGraphNodeType> types[] = {{set_node, hipGraphNodeTypeMemset},
                                                               {copy_node, hipGraphNodeTypeMemcpy},
                                                               {host_node, hipGraphNodeTypeHost},
                                                               {kernel_node, hipGraphNodeTypeKernel},
                                                               {back, hipGraphNodeTypeMemcpy}};
  for (const auto& [node, expected] : types) {
    hipGraphNodeType type{};
    CHECK_OK(hipGraphNodeGetType(node, &type));
    CHECK(type == expected);
  }
  CHECK(graph.node_count() == 5);
  CHECK(graph.edge_count() == 4);

  const Executable executable(graph);
  CHECK(runs == 0);
  Words expected(kCount, 6);
  std::fill(expected.begin(), expected.begin() + kCount / 2, 0x01020305);
  for (int launch = 1; launch <= 3; ++launch) {
    for (std::size_t i = 0; i < kCount; ++i) result.data()[i] = 0;
    executable.run(stream);
    CHECK(result.read() == expected);
    CHECK(runs == launch);
  }
}

TEST_CASE("dependencies can be added after the nodes") {
  const Stream stream;
  const DeviceWords words(kCount);
  const Graph graph;
  const hipMemsetParams set = set_params(words.data(), 10, kCount);
  AddArguments arguments(words.data(), kCount, 1);
  const hipKernelNodeParams kernel = kernel_params(arguments, kCount);
  hipGraphNode_t set_node = nullptr, kernel_node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&kernel_node, graph, nullptr, 0, &kernel));
  REQUIRE_OK(hipGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));
  CHECK(graph.edge_count() == 0);
  REQUIRE_OK(hipGraphAddDependencies(graph, &set_node, &kernel_node, 1));
  hipGraphNode_t from = nullptr, to = nullptr;
  std::size_t count = 1;
  REQUIRE_OK(hipGraphGetEdges(graph, &from, &to, &count));
  CHECK(count == 1);
  CHECK(from == set_node);
  CHECK(to == kernel_node);
  const Executable executable(graph);
  executable.run(stream);
  executable.run(stream);
  CHECK(words.read() == Words(kCount, 11));
}

TEST_CASE("a clone is a graph of its own") {
  const Stream stream;
  std::atomic<int> runs{0};
  const hipHostNodeParams host{count_run, &runs};
  hipGraph_t cloned = nullptr;
  {
    const Graph graph;
    hipGraphNode_t node = nullptr;
    REQUIRE_OK(hipGraphAddHostNode(&node, graph, nullptr, 0, &host));
    REQUIRE_OK(hipGraphClone(&cloned, graph));
  }
  const Graph clone(cloned);
  CHECK(clone.node_count() == 1);
  Executable(clone).run(stream);
  CHECK(runs == 1);
}

TEST_CASE("a graph may be a node of another, which copies it") {
  const Stream stream;
  const DeviceWords words(kCount);
  AddArguments arguments(words.data(), kCount, 5);
  const hipKernelNodeParams kernel = kernel_params(arguments, kCount);
  const Graph outer;
  const hipMemsetParams set = set_params(words.data(), 100, kCount);
  hipGraphNode_t set_node = nullptr, child_node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&set_node, outer, nullptr, 0, &set));
  {
    const Graph inner;
    hipGraphNode_t node = nullptr;
    REQUIRE_OK(hipGraphAddKernelNode(&node, inner, nullptr, 0, &kernel));
    REQUIRE_OK(hipGraphAddChildGraphNode(&child_node, outer, &set_node, 1, inner));
  }
  CHECK(outer.node_count() == 2);
  Executable(outer).run(stream);
  CHECK(words.read() == Words(kCount, 105));
}

TEST_CASE("instantiation reports no node and writes an empty log where nothing is wrong") {
  const Stream stream;
  const DeviceWords words(kCount);
  const Graph graph;
  const hipMemsetParams set = set_params(words.data(), 1, kCount);
  hipGraphNode_t set_node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));
  hipGraphNode_t wrong_node = set_node;
  char log[8] = "unread";
  hipGraphExec_t executable = nullptr;
  REQUIRE_OK(hipGraphInstantiate(&executable, graph, &wrong_node, log, sizeof(log)));
  CHECK(wrong_node == nullptr);
  CHECK(log[0] == '\0');
  CHECK_OK(hipGraphExecDestroy(executable));
}

TEST_CASE("launches of one executable on two streams are ordered by an event") {
  const Stream first, second;
  const Event event;
  const DeviceWords words(kCount);
  const Graph graph;
  AddArguments arguments(words.data(), kCount, 1);
  const hipKernelNodeParams kernel = kernel_params(arguments, kCount);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  const Executable executable(graph);
  for (int i = 0; i < 50; ++i) {
    const Stream& stream = i % 2 == 0 ? first : second;
    if (i > 0) REQUIRE_OK(hipStreamWaitEvent(stream, event));
    REQUIRE_OK(hipGraphLaunch(executable, stream));
    REQUIRE_OK(hipEventRecord(event, stream));
  }
  REQUIRE_OK(hipEventSynchronize(event));
  CHECK(words.read() == Words(kCount, 50));
}
