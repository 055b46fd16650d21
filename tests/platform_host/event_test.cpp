#include "support.hpp"

using test::Gate;

TEST_CASE("an event that was never recorded counts as done") {
  const test::Event event;
  const test::Stream stream;
  CHECK_OK(hipEventQuery(event));
  CHECK_OK(hipEventSynchronize(event));
  CHECK_OK(hipStreamWaitEvent(stream, event, 0));
  CHECK_OK(hipStreamSynchronize(stream));
}

TEST_CASE("an event is done when the work before it is") {
  const test::Stream stream;
  const test::Event event;
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  REQUIRE_OK(hipEventRecord(event, stream));
  CHECK_IS(hipEventQuery(event), hipErrorNotReady);
  gate.open();
  CHECK_OK(hipEventSynchronize(event));
  CHECK_OK(hipEventQuery(event));
}

TEST_CASE("a wait orders streams, also when the event is recorded again or destroyed meanwhile") {
  const test::Stream producer, consumer;
  hipEvent_t event = nullptr;
  REQUIRE_OK(hipEventCreate(&event));
  Gate gate;
  std::atomic<int> calls{0};
  REQUIRE_OK(hipLaunchHostFunc(producer, Gate::host_function, &gate));
  REQUIRE_OK(hipEventRecord(event, producer));
  REQUIRE_OK(hipStreamWaitEvent(consumer, event, 0));
  const test::Stream unrelated;
  REQUIRE_OK(hipEventRecord(event, unrelated));
  REQUIRE_OK(hipEventSynchronize(event));
  REQUIRE_OK(hipEventDestroy(event));
  REQUIRE_OK(hipLaunchHostFunc(consumer, test::count_call, &calls));
  CHECK_IS(hipStreamQuery(consumer), hipErrorNotReady);
  CHECK_EQ(calls.load(), 0);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(consumer));
  CHECK_EQ(calls.load(), 1);
}

TEST_CASE("a stream that only waits for an event isn't done before it") {
  const test::Stream producer, consumer;
  const test::Event event;
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(producer, Gate::host_function, &gate));
  REQUIRE_OK(hipEventRecord(event, producer));
  REQUIRE_OK(hipStreamWaitEvent(consumer, event, 0));
  CHECK_IS(hipStreamQuery(consumer), hipErrorNotReady);
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(consumer));
}

TEST_CASE("elapsed time is the time between two records") {
  const test::Stream stream;
  const test::Event start, stop;
  REQUIRE_OK(hipEventRecord(start, stream));
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr));
  REQUIRE_OK(hipEventRecord(stop, stream));
  float ms = -1;
  CHECK_IS(hipEventElapsedTime(&ms, start, stop), hipErrorNotReady);
  REQUIRE_OK(hipEventSynchronize(stop));
  REQUIRE_OK(hipEventElapsedTime(&ms, start, stop));
  CHECK_GE(ms, 19.9f);
  CHECK_LT(ms, 20000.f);
  REQUIRE_OK(hipEventElapsedTime(&ms, stop, start));
  CHECK_LT(ms, 0.f);
}

TEST_CASE("elapsed time needs two recorded events with timing") {
  const test::Event timed, untimed(hipEventDisableTiming), never;
  const test::Stream stream;
  REQUIRE_OK(hipEventRecord(timed, stream));
  REQUIRE_OK(hipEventRecord(untimed, stream));
  REQUIRE_OK(hipStreamSynchronize(stream));
  float ms = 0;
  CHECK_IS(hipEventElapsedTime(nullptr, timed, timed), hipErrorInvalidValue);
  CHECK_IS(hipEventElapsedTime(&ms, timed, untimed), hipErrorInvalidHandle);
  CHECK_IS(hipEventElapsedTime(&ms, timed, never), hipErrorInvalidHandle);
  CHECK_IS(hipEventElapsedTime(&ms, nullptr, timed), hipErrorInvalidHandle);
}

TEST_CASE("wrong event handles and flags are errors") {
  const test::Stream stream;
  hipEvent_t event = nullptr;
  REQUIRE_OK(hipEventCreate(&event));
  REQUIRE_OK(hipEventDestroy(event));
  CHECK_IS(hipEventDestroy(event), hipErrorContextIsDestroyed);
  CHECK_IS(hipEventDestroy(nullptr), hipErrorInvalidHandle);
  CHECK_IS(hipEventQuery(event), hipErrorInvalidHandle);
  CHECK_IS(hipEventRecord(event, stream), hipErrorInvalidHandle);
  CHECK_IS(hipStreamWaitEvent(stream, event, 0), hipErrorInvalidHandle);
  CHECK_IS(hipEventCreateWithFlags(&event, 0x100), hipErrorInvalidValue);
  CHECK_IS(hipEventCreateWithFlags(&event, hipEventReleaseToDevice | hipEventReleaseToSystem), hipErrorInvalidValue);
  CHECK_IS(hipEventCreate(nullptr), hipErrorInvalidValue);
  const test::Event good;
  CHECK_IS(hipEventRecord(good, test::garbage_stream()), hipErrorContextIsDestroyed);
  CHECK_IS(hipStreamWaitEvent(test::garbage_stream(), good, 0), hipErrorInvalidHandle);
  CHECK_IS(hipEventRecordWithFlags(good, stream, 7), hipErrorInvalidValue);
  CHECK_IS(hipStreamWaitEvent(stream, good, 9), hipErrorInvalidValue);
}

TEST_CASE("a destroyed recorded event stays safe") {
  const test::Stream stream;
  Gate gate;
  REQUIRE_OK(hipLaunchHostFunc(stream, Gate::host_function, &gate));
  hipEvent_t event = nullptr;
  REQUIRE_OK(hipEventCreate(&event));
  REQUIRE_OK(hipEventRecord(event, stream));
  REQUIRE_OK(hipEventDestroy(event));
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
}
