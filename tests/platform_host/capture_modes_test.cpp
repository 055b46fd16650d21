#include <functional>

#include "support.hpp"

namespace {

// Makes an unsafe call while a capture of the given mode is under way; true if the capture survived.
bool survives(hipStreamCaptureMode mode, const std::function<void()>& unsafe) {
  const test::Stream stream;
  REQUIRE_OK(hipStreamBeginCapture(stream, mode));
  unsafe();
  hipGraph_t graph = nullptr;
  const hipError_t status = hipStreamEndCapture(stream, &graph);
  if (status == hipSuccess) {
    CHECK_OK(hipGraphDestroy(graph));
    return true;
  }
  CHECK_IS(status, hipErrorStreamCaptureInvalidated);
  CHECK_EQ(graph, nullptr);
  return false;
}

}  // namespace

TEST_CASE("calls that could synchronise are refused and invalidate the capture") {
  const test::Event event;
  const test::Stream other;
  const test::Buffer<char> buffer(8);
  std::vector<char> host(64);
  void* memory = nullptr;
  const std::pair<const char*, std::function<hipError_t()>> calls[] = {
      {"hipMalloc", [&] { return hipMalloc(&memory, 8); }},
      {"hipHostMalloc", [&] { return hipHostMalloc(&memory, 8, 0); }},
      {"hipFree", [&] { return hipFree(buffer.get()); }},
      {"hipHostRegister", [&] { return hipHostRegister(host.data(), host.size(), 0); }},
      {"hipEventQuery", [&] { return hipEventQuery(event); }},
      {"hipEventSynchronize", [&] { return hipEventSynchronize(event); }},
      {"hipStreamQuery", [&] { return hipStreamQuery(other); }},
      {"hipStreamSynchronize", [&] { return hipStreamSynchronize(other); }},
      {"hipMemcpy", [&] { return hipMemcpy(buffer, host.data(), 8, hipMemcpyHostToDevice); }},
      {"hipMemset", [&] { return hipMemset(buffer, 0, 8); }},
  };
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
      CHECK_FALSE(survives(mode, [&] { CHECK_IS(call(), hipErrorStreamCaptureUnsupported); }));
    }
  }
}

TEST_CASE("another thread's calls invalidate a global capture only") {
  const auto elsewhere = [](hipError_t expected) {
    std::thread([expected] {
      void* memory = nullptr;
      CHECK_IS(hipMalloc(&memory, 8), expected);
      if (memory != nullptr) CHECK_OK(hipFree(memory));
    }).join();
  };
  CHECK_FALSE(survives(hipStreamCaptureModeGlobal, [&] { elsewhere(hipErrorStreamCaptureUnsupported); }));
  CHECK(survives(hipStreamCaptureModeThreadLocal, [&] { elsewhere(hipSuccess); }));
  CHECK(survives(hipStreamCaptureModeRelaxed, [&] { elsewhere(hipSuccess); }));
}

TEST_CASE("a thread in relaxed mode may make unsafe calls") {
  CHECK(survives(hipStreamCaptureModeRelaxed, [] {
    void* memory = nullptr;
    CHECK_OK(hipMalloc(&memory, 8));
    CHECK_OK(hipFree(memory));
  }));
  CHECK(survives(hipStreamCaptureModeGlobal, [] {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    REQUIRE_OK(hipThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQ(mode, hipStreamCaptureModeGlobal);
    void* memory = nullptr;
    CHECK_OK(hipMalloc(&memory, 8));
    CHECK_OK(hipFree(memory));
    REQUIRE_OK(hipThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQ(mode, hipStreamCaptureModeRelaxed);
  }));
  auto wrong = static_cast<hipStreamCaptureMode>(3);
  CHECK_IS(hipThreadExchangeStreamCaptureMode(&wrong), hipErrorInvalidValue);
  CHECK_IS(hipThreadExchangeStreamCaptureMode(nullptr), hipErrorInvalidValue);
}

TEST_CASE("the capturing stream itself can't be waited for in any mode") {
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    const test::Stream stream;
    const test::Event event;
    hipGraph_t graph = nullptr;
    const std::function<hipError_t()> calls[] = {[&] { return hipStreamSynchronize(stream); },
                                                 [&] { return hipStreamQuery(stream); },
                                                 [&] { return hipDeviceSynchronize(); },
                                                 [&] {
                                                   return hipStreamAddCallback(
                                                       stream, [](hipStream_t, hipError_t, void*) {}, nullptr, 0);
                                                 }};
    for (const auto& call : calls) {
      REQUIRE_OK(hipStreamBeginCapture(stream, mode));
      CHECK_IS(call(), hipErrorStreamCaptureUnsupported);
      CHECK_IS(hipLaunchHostFunc(
                   stream, [](void*) {}, nullptr),
               hipErrorStreamCaptureInvalidated);
      CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    }
    REQUIRE_OK(hipStreamBeginCapture(stream, mode));
    REQUIRE_OK(hipEventRecord(event, stream));
    CHECK_IS(hipEventQuery(event), hipErrorCapturedEvent);
    CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    // The event stands for nothing that can be waited for, until it is recorded again.
    CHECK_IS(hipEventSynchronize(event), hipErrorCapturedEvent);
    REQUIRE_OK(hipEventRecord(event, stream));
    CHECK_OK(hipEventSynchronize(event));
  }
}

TEST_CASE("the null stream must not be used while a blocking stream captures") {
  const test::Stream stream(hipStreamDefault);
  const test::Buffer<char> buffer(8);
  char host[8] = {};
  const std::function<hipError_t()> calls[] = {
      [&] { return hipMemsetAsync(buffer, 0, 8, nullptr); },
      [&] { return hipMemcpy(buffer, host, 8, hipMemcpyHostToDevice); },
      [&] { return hipMemset(buffer, 0, 8); },
      [&] {
        return hipLaunchHostFunc(
            hipStreamLegacy, [](void*) {}, nullptr);
      },
  };
  hipGraph_t graph = nullptr;
  for (const auto& call : calls) {
    REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    CHECK_IS(call(), hipErrorStreamCaptureImplicit);
    CHECK_IS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
  }
  // Asking is not using.
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  hipStreamCaptureStatus status{};
  CHECK_IS(hipStreamIsCapturing(nullptr, &status), hipErrorStreamCaptureImplicit);
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  CHECK_OK(hipGraphDestroy(graph));
  CHECK_OK(hipStreamIsCapturing(nullptr, &status));
  CHECK_EQ(status, hipStreamCaptureStatusNone);
}

TEST_CASE("the null stream is free while only a non-blocking stream captures") {
  const test::Buffer<char> buffer(8);
  CHECK(survives(hipStreamCaptureModeGlobal, [&] { CHECK_OK(hipMemsetAsync(buffer, 0, 8, nullptr)); }));
  REQUIRE_OK(hipDeviceSynchronize());
}

TEST_CASE("setting zero bytes is accepted eagerly and refused in a capture, which survives") {
  const test::Stream stream;
  const test::Buffer<char> buffer(8);
  CHECK_OK(hipMemsetAsync(buffer, 0, 0, stream));
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  CHECK_IS(hipMemsetAsync(buffer, 0, 0, stream), hipErrorInvalidValue);
  CHECK_IS(hipMemsetAsync(buffer, 0, 9, stream), hipErrorInvalidValue);
  REQUIRE_OK(hipMemsetAsync(buffer, 0, 8, stream));
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  CHECK_EQ(test::node_count(graph), 1);
  CHECK_OK(hipGraphDestroy(graph));
}

TEST_CASE("stream-ordered allocation in a capture is not supported, and the capture survives") {
  const test::Stream stream;
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  void* memory = nullptr;
  CHECK_IS(hipMallocAsync(&memory, 8, stream), hipErrorNotSupported);
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  CHECK_OK(hipGraphDestroy(graph));
}
