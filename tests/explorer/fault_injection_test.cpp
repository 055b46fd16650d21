#include <hiphost/fault.hpp>

#include <string>

#include "support.hpp"

using hiphost::FaultInjection;
using hiphost::FaultPlan;

TEST_CASE("the n-th call fails without doing anything, the others are as ever") {
  const test::Stream stream;
  std::atomic<int> ran{0};
  const auto three_calls = [&] {
    return std::vector<hipError_t>{hipLaunchHostFunc(stream, test::count_call, &ran),
                                   hipLaunchHostFunc(stream, test::count_call, &ran), hipStreamSynchronize(stream)};
  };
  for (std::uint64_t n = 1; n <= 4; ++n) {
    ran = 0;
    std::vector<hipError_t> results;
    {
      const FaultInjection fault({.call = n});
      results = three_calls();
      CHECK_EQ(fault.calls(), 3);
      CHECK_EQ(fault.failed() != nullptr, n <= 3);
    }
    CHECK_OK(hipStreamSynchronize(stream));
    for (std::size_t i = 0; i < 3; ++i) CHECK_IS(results[i], i + 1 == n ? hipErrorUnknown : hipSuccess);
    CHECK_EQ(ran.load(), n <= 2 ? 1 : 2);
  }
}

TEST_CASE("calls that allocate run out of memory, and another error can be asked for") {
  void* memory = nullptr;
  {
    const FaultInjection fault({.call = 1});
    CHECK_IS(hipMalloc(&memory, 16), hipErrorOutOfMemory);
    CHECK_EQ(std::string(fault.failed()), "hipMalloc");
  }
  const FaultInjection fault({.call = 1, .error = hipErrorNotReady});
  CHECK_IS(hipMalloc(&memory, 16), hipErrorNotReady);
}

TEST_CASE("calls of one function can be chosen") {
  FaultPlan plan;
  plan.call = 2;
  plan.function = "hipStreamQuery";
  const test::Stream stream;
  const FaultInjection fault(plan);
  CHECK_OK(hipStreamQuery(stream));
  CHECK_OK(hipStreamSynchronize(stream));
  CHECK_IS(hipStreamQuery(stream), hipErrorUnknown);
  CHECK_OK(hipStreamQuery(stream));
  CHECK_EQ(fault.calls(), 3);
}

TEST_CASE("the n-th allocation fails, of whatever kind it is") {
  const FaultInjection fault({.allocation = 2});
  void* device = nullptr;
  void* pinned = nullptr;
  CHECK_OK(hipMalloc(&device, 16));
  CHECK_IS(hipHostMalloc(&pinned, 16), hipErrorOutOfMemory);
  CHECK_EQ(pinned, nullptr);
  CHECK_EQ(fault.allocations(), 2);
  CHECK_EQ(std::string(fault.failed()), "allocation");
  CHECK_OK(hipFree(device));
}

TEST_CASE("suspended injection neither counts nor fails, and questions about errors are never counted") {
  FaultInjection fault({.call = 1});
  (void)hipGetLastError();
  fault.suspend();
  CHECK_OK(hipDeviceSynchronize());
  fault.resume();
  CHECK_OK(hipGetLastError());
  CHECK_EQ(fault.calls(), 0);
  CHECK_IS(hipDeviceSynchronize(), hipErrorUnknown);
  CHECK_IS(hipGetLastError(), hipErrorUnknown);
}

TEST_CASE("calls of other threads can be left alone") {
  const FaultInjection fault({.call = 1, .this_thread_only = true});
  std::thread([] { CHECK_OK(hipDeviceSynchronize()); }).join();
  CHECK_IS(hipDeviceSynchronize(), hipErrorUnknown);
}

TEST_CASE("what is alive is counted by kind") {
  const hiphost::LiveObjects before = hiphost::live_objects();
  {
    const test::Stream stream;
    const test::Event event;
    const test::Graph graph;
    const test::Exec exec(graph);
    const test::Buffer<int> memory(4);
    const hiphost::LiveObjects now = hiphost::live_objects();
    CHECK_EQ(now.streams, before.streams + 1);
    CHECK_EQ(now.events, before.events + 1);
    CHECK_EQ(now.graphs, before.graphs + 1);
    CHECK_EQ(now.executables, before.executables + 1);
    CHECK_EQ(now.allocations, before.allocations + 1);
  }
  CHECK((hiphost::live_objects() == before));
}
