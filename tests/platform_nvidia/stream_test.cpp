#include "kernels.hpp"
#include "support.hpp"

using namespace test;

TEST_CASE("host functions run one after another, in the stream's order") {
  struct Log {
    std::vector<int> entries;
    static void first(void* log) { static_cast<Log*>(log)->entries.push_back(1); }
    static void second(void* log) { static_cast<Log*>(log)->entries.push_back(2); }
  };
  const Stream stream;
  Log log;
  for (int i = 0; i < 3; ++i) {
    REQUIRE_OK(hipLaunchHostFunc(stream, Log::first, &log));
    REQUIRE_OK(hipLaunchHostFunc(stream, Log::second, &log));
  }
  stream.wait();
  CHECK(log.entries == std::vector{1, 2, 1, 2, 1, 2});
}

TEST_CASE("a stream and an event are not ready before what they wait for") {
  const Stream stream;
  const Event event;
  CHECK_OK(hipEventQuery(event));  // never recorded
  Gate gate(stream);
  REQUIRE_OK(hipEventRecord(event, stream));
  CHECK_IS(hipEventQuery(event), hipErrorNotReady);
  CHECK_IS(hipStreamQuery(stream), hipErrorNotReady);
  (void)hipGetLastError();
  gate.open();
  CHECK_OK(hipEventSynchronize(event));
  CHECK_OK(hipEventQuery(event));
  stream.wait();
  CHECK_OK(hipStreamQuery(stream));
}

TEST_CASE("a stream waits for another's event") {
  const Stream ahead, behind;
  const Event event;
  std::atomic<int> runs{0};
  Gate gate(ahead);
  REQUIRE_OK(hipEventRecord(event, ahead));
  REQUIRE_OK(hipStreamWaitEvent(behind, event));
  REQUIRE_OK(hipLaunchHostFunc(behind, count_run, &runs));
  CHECK_IS(hipStreamQuery(behind), hipErrorNotReady);
  (void)hipGetLastError();
  CHECK(runs == 0);
  gate.open();
  behind.wait();
  CHECK(runs == 1);
}

TEST_CASE("time passes between two events that keep it") {
  const Stream stream;
  const Event start(hipEventDefault), stop(hipEventDefault);
  REQUIRE_OK(hipEventRecord(start, stream));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr));
  REQUIRE_OK(hipEventRecord(stop, stream));
  REQUIRE_OK(hipEventSynchronize(stop));
  float ms = 0;
  CHECK_OK(hipEventElapsedTime(&ms, start, stop));
  CHECK(ms >= 19.0F);
  CHECK(ms < 10000.0F);
}

TEST_CASE("a launched kernel runs with its grid, block and arguments") {
  constexpr std::uint32_t kCount = 1000;
  const Stream stream;
  const DeviceWords words(kCount);
  {
    AddArguments arguments(words.data(), kCount - 1, 7);
    REQUIRE_OK(hipLaunchKernel(add_kernel(), dim3(8), dim3(128), arguments.pointers, 0, stream));
    arguments.amount = 0xBAD;  // the launch has taken its arguments
  }
  stream.wait();
  Words expected(kCount, 7);
  expected.back() = 0;
  CHECK(words.read() == expected);
}

TEST_CASE("the default stream takes all of it as well") {
  std::atomic<int> runs{0};
  const DeviceWords words(4);
  AddArguments arguments(words.data(), 4, 3);
  REQUIRE_OK(hipLaunchKernel(add_kernel(), dim3(1), dim3(4), arguments.pointers));
  REQUIRE_OK(hipLaunchHostFunc(nullptr, count_run, &runs));
  CHECK_OK(hipStreamSynchronize(nullptr));
  CHECK(runs == 1);
  CHECK(words.read() == Words(4, 3));
}
