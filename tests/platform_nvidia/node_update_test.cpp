#include "kernels.hpp"
#include "node_params.hpp"
#include "support.hpp"

using namespace test;

namespace {

constexpr std::uint32_t kCount = 512;

/// A graph of one node, and what it becomes: `change` is given the executable, or null for the graph itself. Both must
/// do the new work, the executable made before only when it was changed.
template <class Change>
void check_change(const Graph& graph, const Change& change, const DeviceWords& target, std::uint32_t former_value,
                  std::uint32_t new_value) {
  const Stream stream;
  const auto run = [&](const Executable& executable) {
    REQUIRE_OK(hipMemset(target.data(), 0, target.bytes()));
    REQUIRE_OK(hipDeviceSynchronize());
    executable.run(stream);
    return target.read();
  };
  const Executable executable(graph);
  CHECK(run(executable) == Words(kCount, former_value));
  REQUIRE_OK(change(executable));
  CHECK(run(executable) == Words(kCount, new_value));
  CHECK(run(Executable(graph)) == Words(kCount, former_value));

  const Executable made_before(graph);
  REQUIRE_OK(change(nullptr));
  CHECK(run(made_before) == Words(kCount, former_value));
  CHECK(run(Executable(graph)) == Words(kCount, new_value));
}

}  // namespace

TEST_CASE("a set's value can be changed in an executable and in a graph") {
  const DeviceWords words(kCount);
  const Graph graph;
  const hipMemsetParams former = set_params(words.data(), 0x11223344, kCount);
  const hipMemsetParams changed = set_params(words.data(), 0x55667788, kCount);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &former));
  const auto change = [&](hipGraphExec_t executable) {
    return executable != nullptr ? hipGraphExecMemsetNodeSetParams(executable, node, &changed)
                                 : hipGraphMemsetNodeSetParams(node, &changed);
  };
  check_change(graph, change, words, 0x11223344, 0x55667788);
}

TEST_CASE("a set can be sent elsewhere") {
  const Stream stream;
  const DeviceWords former_words(kCount), new_words(kCount);
  const Graph graph;
  const hipMemsetParams former = set_params(former_words.data(), 7, kCount);
  const hipMemsetParams changed = set_params(new_words.data(), 7, kCount);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &former));
  const Executable executable(graph);
  REQUIRE_OK(hipGraphExecMemsetNodeSetParams(executable, node, &changed));
  executable.run(stream);
  CHECK(former_words.read() == Words(kCount, 0));
  CHECK(new_words.read() == Words(kCount, 7));
}

TEST_CASE("a copy's source can be changed in an executable and in a graph") {
  const DeviceWords words(kCount);
  const PinnedWords former(kCount), changed(kCount);
  former.fill(1);
  changed.fill(2);
  const Graph graph;
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&node, graph, nullptr, 0, words.data(), former.data(), words.bytes(),
                                     hipMemcpyHostToDevice));
  const auto change = [&](hipGraphExec_t executable) {
    return executable != nullptr ? hipGraphExecMemcpyNodeSetParams1D(executable, node, words.data(), changed.data(),
                                                                     words.bytes(), hipMemcpyHostToDevice)
                                 : hipGraphMemcpyNodeSetParams1D(node, words.data(), changed.data(), words.bytes(),
                                                                 hipMemcpyHostToDevice);
  };
  check_change(graph, change, words, 1, 2);
}

TEST_CASE("a copy to the host can be sent elsewhere") {
  const Stream stream;
  const DeviceWords words(kCount);
  REQUIRE_OK(hipMemset(words.data(), 0x33, words.bytes()));
  REQUIRE_OK(hipDeviceSynchronize());
  const PinnedWords former(kCount), changed(kCount);
  const Graph graph;
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddMemcpyNode1D(&node, graph, nullptr, 0, former.data(), words.data(), words.bytes(),
                                     hipMemcpyDeviceToHost));
  const Executable executable(graph);
  REQUIRE_OK(hipGraphExecMemcpyNodeSetParams1D(executable, node, changed.data(), words.data(), words.bytes(),
                                               hipMemcpyDeviceToHost));
  executable.run(stream);
  CHECK(former.read() == Words(kCount, 0));
  CHECK(changed.read() == Words(kCount, 0x33333333));
}

TEST_CASE("a kernel's arguments and grid can be changed in an executable and in a graph") {
  const DeviceWords words(kCount);
  const Graph graph;
  AddArguments former(words.data(), kCount, 3);
  AddArguments changed(words.data(), kCount, 4);
  const hipKernelNodeParams former_params = kernel_params(former, kCount);
  hipKernelNodeParams changed_params = kernel_params(changed, kCount);
  changed_params.gridDim = dim3(kCount);
  changed_params.blockDim = dim3(1);
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &former_params));
  const auto change = [&](hipGraphExec_t executable) {
    return executable != nullptr ? hipGraphExecKernelNodeSetParams(executable, node, &changed_params)
                                 : hipGraphKernelNodeSetParams(node, &changed_params);
  };
  check_change(graph, change, words, 3, 4);
}

TEST_CASE("a host node's function data can be changed in an executable and in a graph") {
  const Stream stream;
  std::atomic<int> former_runs{0}, new_runs{0};
  const hipHostNodeParams former{count_run, &former_runs};
  const hipHostNodeParams changed{count_run, &new_runs};
  const Graph graph;
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&node, graph, nullptr, 0, &former));
  const Executable executable(graph);
  executable.run(stream);
  CHECK(former_runs == 1);
  REQUIRE_OK(hipGraphExecHostNodeSetParams(executable, node, &changed));
  executable.run(stream);
  CHECK(former_runs == 1);
  CHECK(new_runs == 1);
  Executable(graph).run(stream);
  CHECK(former_runs == 2);
  REQUIRE_OK(hipGraphHostNodeSetParams(node, &changed));
  Executable(graph).run(stream);
  CHECK(former_runs == 2);
  CHECK(new_runs == 2);
}
