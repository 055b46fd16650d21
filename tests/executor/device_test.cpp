#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

int current_device() {
  int device = -1;
  check_hip(hipGetDevice(&device), "hipGetDevice");
  return device;
}

/// Restores device 0 for the tests that follow.
struct OnDevice {
  explicit OnDevice(int device) { check_hip(hipSetDevice(device), "hipSetDevice"); }
  ~OnDevice() { (void)hipSetDevice(0); }
};

}  // namespace

TEST_CASE("work goes to the stream's device and the current device stays what it was") {
  if (!has_second_device()) return;
  const OnDevice restore(1);
  Call call(long_case());
  CHECK(call.executor.device().device == 1);
  const OwnedStream stream;  // of device 1
  const CapturedGraph captured([&](hipStream_t capturing) { call.executor.enqueue(call.arguments(), capturing); });
  Graph graph(call.executor, call.arguments());

  call.device.poison_outputs();
  check_hip(hipSetDevice(0), "hipSetDevice");
  call.executor.enqueue(call.arguments(), stream.get());
  CHECK(current_device() == 0);
  graph.launch(stream.get());
  CHECK(current_device() == 0);
  stream.synchronize();
  check_hip(hipSetDevice(1), "hipSetDevice");
  CHECK(call.failure() == "");
}

TEST_CASE("a stream of another device is refused and the current device stays what it was") {
  if (!has_second_device()) return;
  Call call(long_case());
  const OnDevice restore(1);
  const OwnedStream stream;  // of device 1
  CHECK_THROWS_WITH_AS(call.executor.enqueue(call.arguments(), stream.get()), doctest::Contains("device 1"), Error);
  CHECK_THROWS_WITH_AS(call.executor.enqueue_forward(call.arguments(), stream.get()), doctest::Contains("device 1"),
                       Error);
  CHECK(current_device() == 1);
}

TEST_CASE("after a refused call the current device is what it was") {
  if (!has_second_device()) return;
  Call call(long_case());
  const OwnedStream stream;
  CallArguments arguments = call.arguments();
  arguments.q.data = nullptr;
  const OnDevice restore(1);
  CHECK_THROWS_AS(call.executor.enqueue(arguments, stream.get()), Error);
  CHECK(current_device() == 1);
}

TEST_CASE("memory of another device is refused before anything is enqueued") {
  if (!has_second_device()) return;
  Call call(long_case());
  void* memory = nullptr;
  {
    const OnDevice restore(1);
    check_hip(hipMalloc(&memory, 1 << 20), "hipMalloc");
  }
  CallArguments arguments = call.arguments();
  arguments.dout.data = memory;
  const CapturedGraph captured([&](hipStream_t stream) {
    CHECK_THROWS_WITH_AS(call.executor.enqueue(arguments, stream), doctest::Contains("dout.data lies on device 1"),
                         Error);
  });
  CHECK(node_count(captured.graph()) == 0);
  CHECK_THROWS_WITH_AS(Graph(call.executor, arguments), doctest::Contains("dout.data lies on device 1"), Error);
  check_hip(hipFree(memory), "hipFree");
}
