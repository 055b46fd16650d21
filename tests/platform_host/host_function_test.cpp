#include <stdexcept>

#include "support.hpp"

TEST_CASE("a host function that calls the runtime is refused, not deadlocked") {
  const test::Stream stream;
  struct Results {
    hipStream_t stream;
    hipError_t allocate = hipSuccess, synchronize = hipSuccess, enqueue = hipSuccess, device = hipErrorUnknown;
  } results{stream};
  REQUIRE_OK(hipLaunchHostFunc(
      stream,
      [](void* data) {
        auto* r = static_cast<Results*>(data);
        void* memory = nullptr;
        int device = 0;
        r->allocate = hipMalloc(&memory, 8);
        r->synchronize = hipStreamSynchronize(r->stream);
        r->enqueue = hipLaunchHostFunc(
            r->stream, [](void*) {}, nullptr);
        r->device = hipGetDevice(&device);
      },
      &results));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_IS(results.allocate, hipErrorNotSupported);
  CHECK_IS(results.synchronize, hipErrorNotSupported);
  CHECK_IS(results.enqueue, hipErrorNotSupported);
  CHECK_OK(results.device);
}

TEST_CASE("a callback gets its stream, status and data") {
  const test::Stream stream;
  struct Seen {
    hipStream_t stream = nullptr;
    hipError_t status = hipErrorUnknown;
  } seen;
  REQUIRE_OK(hipStreamAddCallback(
      stream,
      [](hipStream_t s, hipError_t status, void* data) {
        static_cast<Seen*>(data)->stream = s;
        static_cast<Seen*>(data)->status = status;
      },
      &seen, 0));
  REQUIRE_OK(hipStreamSynchronize(stream));
  CHECK_EQ(seen.stream, static_cast<hipStream_t>(stream));
  CHECK_OK(seen.status);
  CHECK_IS(hipStreamAddCallback(stream, nullptr, nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipLaunchHostFunc(stream, nullptr, nullptr), hipErrorInvalidValue);
}

TEST_CASE("a host function that throws fails the device until it is reset") {
  const test::Stream stream;
  REQUIRE_OK(hipLaunchHostFunc(
      stream, [](void*) { throw std::runtime_error("boom"); }, nullptr));
  CHECK_IS(hipStreamSynchronize(stream), hipErrorLaunchFailure);
  CHECK_IS(hipDeviceSynchronize(), hipErrorLaunchFailure);
  REQUIRE_OK(hipDeviceReset());
  CHECK_OK(hipStreamSynchronize(stream));
}
