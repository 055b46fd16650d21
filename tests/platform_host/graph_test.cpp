#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "support.hpp"

namespace {

hipGraphNode_t empty_node(hipGraph_t graph, std::vector<hipGraphNode_t> before = {}) {
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddEmptyNode(&node, graph, before.data(), before.size()));
  return node;
}

}  // namespace

TEST_CASE("nodes, edges and roots are told") {
  const test::Graph graph;
  const hipGraphNode_t a = empty_node(graph), b = empty_node(graph, {a}), c = empty_node(graph, {a, b});
  CHECK_EQ(test::node_count(graph), 3);
  CHECK_EQ(test::edge_count(graph), 3);
  hipGraphNode_t nodes[5];
  std::size_t count = 5;
  REQUIRE_OK(hipGraphGetNodes(graph, nodes, &count));
  CHECK_EQ(count, 3);
  CHECK_EQ(nodes[0], a);
  CHECK_EQ(nodes[3], nullptr);
  count = 1;
  REQUIRE_OK(hipGraphGetRootNodes(graph, nodes, &count));
  CHECK_EQ(count, 1);
  CHECK_EQ(nodes[0], a);
  REQUIRE_OK(hipGraphNodeGetDependencies(c, nullptr, &count));
  CHECK_EQ(count, 2);
  REQUIRE_OK(hipGraphNodeGetDependentNodes(a, nullptr, &count));
  CHECK_EQ(count, 2);
  hipGraphNode_t from[3], to[3];
  count = 3;
  REQUIRE_OK(hipGraphGetEdges(graph, from, to, &count));
  CHECK_EQ(count, 3);
  CHECK_IS(hipGraphGetEdges(graph, nullptr, to, &count), hipErrorInvalidValue);
  CHECK_IS(hipGraphGetEdges(graph, from, to, nullptr), hipErrorInvalidValue);
}

TEST_CASE("edges are added and removed, wrong ones refused without effect") {
  const test::Graph graph, other;
  const hipGraphNode_t a = empty_node(graph), b = empty_node(graph), stranger = empty_node(other);
  REQUIRE_OK(hipGraphAddDependencies(graph, &a, &b, 1));
  CHECK_IS(hipGraphAddDependencies(graph, &a, &b, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddDependencies(graph, &a, &a, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddDependencies(graph, &a, &stranger, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddDependencies(graph, nullptr, &b, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddDependencies(nullptr, &a, &b, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddDependencies(graph, &a, &b, 100), hipErrorInvalidValue);
  CHECK_EQ(test::edge_count(graph), 1);
  REQUIRE_OK(hipGraphRemoveDependencies(graph, &a, &b, 1));
  CHECK_IS(hipGraphRemoveDependencies(graph, &a, &b, 1), hipErrorInvalidValue);
  CHECK_EQ(test::edge_count(graph), 0);
}

TEST_CASE("wrong dependencies of a new node are refused") {
  const test::Graph graph, other;
  const hipGraphNode_t a = empty_node(graph), b = empty_node(graph), stranger = empty_node(other);
  hipGraphNode_t node = nullptr;
  const hipGraphNode_t twice[] = {a, a};
  CHECK_IS(hipGraphAddEmptyNode(&node, graph, nullptr, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddEmptyNode(&node, graph, &stranger, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddEmptyNode(&node, graph, twice, 2), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddEmptyNode(&node, graph, &b, 3), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddEmptyNode(nullptr, graph, nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddEmptyNode(&node, nullptr, nullptr, 0), hipErrorInvalidValue);
  CHECK_EQ(test::node_count(graph), 2);
}

TEST_CASE("destroyed graphs and nodes are errors, never dereferenced") {
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipGraphCreate(&graph, 0));
  const hipGraphNode_t a = empty_node(graph), b = empty_node(graph, {a});
  REQUIRE_OK(hipGraphDestroyNode(a));
  CHECK_EQ(test::edge_count(graph), 0);
  hipGraphNodeType type{};
  CHECK_IS(hipGraphNodeGetType(a, &type), hipErrorInvalidValue);
  CHECK_IS(hipGraphDestroyNode(a), hipErrorInvalidValue);
  REQUIRE_OK(hipGraphDestroy(graph));
  CHECK_IS(hipGraphDestroy(graph), hipErrorInvalidValue);
  CHECK_IS(hipGraphNodeGetType(b, &type), hipErrorInvalidValue);
  CHECK_IS(hipGraphDestroy(nullptr), hipErrorInvalidValue);
  CHECK_IS(hipGraphCreate(&graph, 1), hipErrorInvalidValue);
  CHECK_IS(hipGraphCreate(nullptr, 0), hipErrorInvalidValue);
}

TEST_CASE("node parameters are checked, returned and changed") {
  const test::Graph graph;
  const test::Buffer<char> device(64);
  char host[64] = {};
  hipGraphNode_t node = nullptr, copy = nullptr, call = nullptr;

  hipMemsetParams set = test::memset_params(device, 7, 1, 64);
  REQUIRE_OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  hipMemsetParams got{};
  REQUIRE_OK(hipGraphMemsetNodeGetParams(node, &got));
  CHECK_EQ(got.dst, set.dst);
  CHECK_EQ(got.value, 7u);
  CHECK_EQ(got.width, 64);
  for (const unsigned wrong : {0u, 3u, 5u}) {
    hipMemsetParams bad = set;
    bad.elementSize = wrong;
    CHECK_IS(hipGraphMemsetNodeSetParams(node, &bad), hipErrorInvalidValue);
  }
  hipMemsetParams bad = set;
  bad.width = 65;
  CHECK_IS(hipGraphMemsetNodeSetParams(node, &bad), hipErrorInvalidValue);
  bad = set;
  bad.width = 0;
  CHECK_IS(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &bad), hipErrorInvalidValue);
  bad = set;
  bad.height = 0;
  CHECK_IS(hipGraphMemsetNodeSetParams(node, &bad), hipErrorInvalidValue);
  CHECK_IS(hipGraphMemsetNodeSetParams(node, nullptr), hipErrorInvalidValue);

  REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, device, host, 64, hipMemcpyHostToDevice));
  CHECK_IS(hipGraphMemcpyNodeSetParams1D(copy, device, host, 0, hipMemcpyDefault), hipErrorInvalidValue);
  CHECK_IS(hipGraphMemcpyNodeSetParams1D(copy, device, host, 65, hipMemcpyDefault), hipErrorInvalidValue);
  CHECK_IS(hipGraphMemcpyNodeSetParams1D(copy, device, host, 64, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  hipMemcpy3DParms box{};
  REQUIRE_OK(hipGraphMemcpyNodeGetParams(copy, &box));
  CHECK_EQ(box.dstPtr.ptr, device.get());
  CHECK_EQ(box.extent.width, 64);
  CHECK_EQ(box.kind, hipMemcpyHostToDevice);
  box.extent.width = 32;
  CHECK_OK(hipGraphMemcpyNodeSetParams(copy, &box));

  // Source and destination of a row must not overlap; a box may lie within the pitch of another.
  const hipMemcpyKind on_device = hipMemcpyDeviceToDevice;
  CHECK_IS(hipGraphMemcpyNodeSetParams1D(copy, device, device, 32, on_device), hipErrorInvalidValue);
  CHECK_IS(hipGraphMemcpyNodeSetParams1D(copy, device.get() + 31, device, 32, on_device), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddMemcpyNode1D(&node, graph, nullptr, 0, device, device.get() + 31, 32, on_device),
           hipErrorInvalidValue);
  CHECK_OK(hipGraphMemcpyNodeSetParams1D(copy, device.get() + 32, device, 32, on_device));
  box = hipMemcpy3DParms{};
  box.srcPtr = make_hipPitchedPtr(device.get(), 16, 8, 4);
  box.dstPtr = make_hipPitchedPtr(device.get() + 8, 16, 8, 4);
  box.extent = make_hipExtent(8, 4, 1);
  box.kind = on_device;
  CHECK_OK(hipGraphMemcpyNodeSetParams(copy, &box));

  hipHostNodeParams params = test::host_params([](void*) {}, host);
  REQUIRE_OK(hipGraphAddHostNode(&call, graph, nullptr, 0, &params));
  hipHostNodeParams host_got{};
  REQUIRE_OK(hipGraphHostNodeGetParams(call, &host_got));
  CHECK_EQ(host_got.userData, host);
  params.fn = nullptr;
  CHECK_IS(hipGraphHostNodeSetParams(call, &params), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddHostNode(&call, graph, nullptr, 0, nullptr), hipErrorInvalidValue);
  CHECK_IS(hipGraphHostNodeGetParams(copy, &host_got), hipErrorInvalidValue);
}

TEST_CASE("event nodes know their event and outlive its handle") {
  const test::Graph graph;
  hipEvent_t event = nullptr;
  const test::Event other;
  REQUIRE_OK(hipEventCreate(&event));
  hipGraphNode_t record = nullptr, wait = nullptr;
  REQUIRE_OK(hipGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
  REQUIRE_OK(hipGraphAddEventWaitNode(&wait, graph, &record, 1, event));
  hipEvent_t got = nullptr;
  REQUIRE_OK(hipGraphEventRecordNodeGetEvent(record, &got));
  CHECK_EQ(got, event);
  CHECK_IS(hipGraphEventRecordNodeSetEvent(wait, other), hipErrorInvalidValue);
  CHECK_IS(hipGraphEventWaitNodeSetEvent(wait, nullptr), hipErrorInvalidValue);
  CHECK_OK(hipGraphEventWaitNodeSetEvent(wait, other));
  REQUIRE_OK(hipEventDestroy(event));
  CHECK_IS(hipGraphAddEventRecordNode(&record, graph, nullptr, 0, event), hipErrorInvalidValue);
  const test::Stream stream;
  const test::Exec exec(graph);
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
}

TEST_CASE("a clone has nodes of its own that can be found") {
  const test::Graph graph;
  const hipGraphNode_t a = empty_node(graph), b = empty_node(graph, {a});
  hipGraph_t made = nullptr;
  REQUIRE_OK(hipGraphClone(&made, graph));
  const test::Graph clone(made);
  CHECK_EQ(test::edge_count(clone), 1);
  hipGraphNode_t found = nullptr;
  REQUIRE_OK(hipGraphNodeFindInClone(&found, b, clone));
  CHECK_NE(found, b);
  const hipGraphNode_t late = empty_node(graph);
  CHECK_IS(hipGraphNodeFindInClone(&found, late, clone), hipErrorInvalidValue);
  CHECK_IS(hipGraphNodeFindInClone(&found, a, graph), hipErrorInvalidValue);
  CHECK_IS(hipGraphNodeFindInClone(nullptr, a, clone), hipErrorInvalidValue);
  CHECK_IS(hipGraphClone(nullptr, graph), hipErrorInvalidValue);
  CHECK_IS(hipGraphClone(&made, nullptr), hipErrorInvalidValue);
}

TEST_CASE("a child graph is a copy that can be reached through its node only") {
  std::atomic<int> calls{0};
  auto child = std::make_unique<test::Graph>();
  const hipHostNodeParams params = test::host_params(test::count_call, &calls);
  hipGraphNode_t inner = nullptr, node = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&inner, *child, nullptr, 0, &params));
  const test::Graph graph;
  REQUIRE_OK(hipGraphAddChildGraphNode(&node, graph, nullptr, 0, *child));
  child.reset();
  hipGraph_t embedded = nullptr;
  REQUIRE_OK(hipGraphChildGraphNodeGetGraph(node, &embedded));
  CHECK_EQ(test::node_count(embedded), 1);
  CHECK_IS(hipGraphDestroy(embedded), hipErrorInvalidValue);
  const test::Exec exec(graph);
  const test::Stream stream;
  REQUIRE_OK(hipGraphLaunch(exec, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(calls.load(), 1);
}

TEST_CASE("nodes of each kind can be added through the generic call, unknown kinds can't") {
  const test::Graph graph;
  const test::Buffer<char> device(64);
  const test::Event event;
  hipGraphNode_t node = nullptr;
  hipGraphNodeParams params{};
  params.type = hipGraphNodeTypeMemset;
  params.memset = test::memset_params(device, 1, 1, 64);
  CHECK_OK(hipGraphAddNode(&node, graph, nullptr, 0, &params));
  params.memset.value = 2;
  CHECK_OK(hipGraphNodeSetParams(node, &params));
  params.type = hipGraphNodeTypeEventRecord;
  params.eventRecord.event = event;
  CHECK_IS(hipGraphNodeSetParams(node, &params), hipErrorInvalidValue);
  CHECK_OK(hipGraphAddNode(&node, graph, &node, 1, &params));
  params.type = hipGraphNodeTypeMemAlloc;
  CHECK_IS(hipGraphAddNode(&node, graph, nullptr, 0, &params), hipErrorNotSupported);
  params.type = static_cast<hipGraphNodeType>(15);
  CHECK_IS(hipGraphAddNode(&node, graph, nullptr, 0, &params), hipErrorInvalidValue);
  CHECK_IS(hipGraphAddNode(&node, graph, nullptr, 0, nullptr), hipErrorInvalidValue);
  CHECK_EQ(test::node_count(graph), 2);
}

TEST_CASE("a graph is printed in the dot language") {
  const test::Graph graph;
  const hipGraphNode_t a = empty_node(graph);
  (void)empty_node(graph, {a});
  const std::string path = "platform_host_graph.dot";
  REQUIRE_OK(hipGraphDebugDotPrint(graph, path.c_str(), hipGraphDebugDotFlagsVerbose));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK_NE(text.str().find("digraph"), std::string::npos);
  CHECK_NE(text.str().find("->"), std::string::npos);
  std::remove(path.c_str());
  CHECK_IS(hipGraphDebugDotPrint(graph, nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphDebugDotPrint(nullptr, path.c_str(), 0), hipErrorInvalidValue);
}
