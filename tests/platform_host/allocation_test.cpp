// Every allocation of a call fails once: it reports out of memory, holds no lock and leaves all as it was. A program of
// its own, since it replaces operator new.
#include <cstdlib>
#include <new>

#include "support.hpp"

namespace {

constinit thread_local int allocations_until_failure = -1;  // -1: none fails

// The calls until one succeeds; each of the others has run out of memory.
template <class Call>
int calls_until_success(Call&& call) {
  for (int n = 0;; ++n) {
    allocations_until_failure = n;
    const hipError_t result = call();
    allocations_until_failure = -1;
    if (result == hipSuccess) return n;
    REQUIRE_EQ(result, hipErrorOutOfMemory);
    REQUIRE_LT(n, 1000);
  }
}

int released = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  if (allocations_until_failure == 0) {
    allocations_until_failure = -1;
    throw std::bad_alloc();
  }
  if (allocations_until_failure > 0) --allocations_until_failure;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("instantiating and updating survive every allocation's failure, also with user objects to keep") {
  const test::Stream stream;
  const test::Buffer<float> data(16);
  const auto captured = [&] {
    return test::capture(stream, [&] {
      CHECK_OK(hipMemsetAsync(data, 0, 64, stream));
      CHECK_OK(hipMemsetAsync(data, 1, 32, stream));
    });
  };
  hipGraphExec_t exec = nullptr;
  released = 0;
  {
    const test::Graph graph(captured());
    hipUserObject_t object = nullptr;
    REQUIRE_OK(hipUserObjectCreate(
        &object, nullptr, [](void*) { ++released; }, 1, hipUserObjectNoDestructorSync));
    REQUIRE_OK(hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove));
    CHECK_GT(calls_until_success([&] { return hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0); }), 3);
  }
  const test::Graph other(captured());
  CHECK_OK(hipGraphLaunch(exec, stream));
  hipGraphNode_t culprit = nullptr;
  hipGraphExecUpdateResult result = hipGraphExecUpdateError;
  CHECK_GT(calls_until_success([&] { return hipGraphExecUpdate(exec, other, &culprit, &result); }), 1);
  CHECK_OK(hipGraphLaunch(exec, stream));
  CHECK_OK(hipStreamSynchronize(stream));
  CHECK_OK(hipGraphExecDestroy(exec));
  CHECK_OK(hipDeviceSynchronize());
  for (int i = 0; i < 2000 && released == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK_EQ(released, 1);
}
