#include <string>

#include "kernels.hpp"
#include "support.hpp"

using namespace test;

TEST_SUITE("needs no device") {
  TEST_CASE("errors have HIP's values and HIP's names") {
    const struct {
      hipError_t error;
      int value;
      const char* name;
    } errors[] = {
        {hipSuccess, 0, "hipSuccess"},
        {hipErrorInvalidValue, 1, "hipErrorInvalidValue"},
        {hipErrorOutOfMemory, 2, "hipErrorOutOfMemory"},
        {hipErrorNotInitialized, 3, "hipErrorNotInitialized"},
        {hipErrorDeinitialized, 4, "hipErrorDeinitialized"},
        {hipErrorInvalidConfiguration, 9, "hipErrorInvalidConfiguration"},
        {hipErrorInvalidDeviceFunction, 98, "hipErrorInvalidDeviceFunction"},
        {hipErrorNoDevice, 100, "hipErrorNoDevice"},
        {hipErrorInvalidDevice, 101, "hipErrorInvalidDevice"},
        {hipErrorInvalidContext, 201, "hipErrorInvalidContext"},
        {hipErrorNoBinaryForGpu, 209, "hipErrorNoBinaryForGpu"},
        {hipErrorInvalidHandle, 400, "hipErrorInvalidHandle"},
        {hipErrorIllegalState, 401, "hipErrorIllegalState"},
        {hipErrorNotFound, 500, "hipErrorNotFound"},
        {hipErrorNotReady, 600, "hipErrorNotReady"},
        {hipErrorIllegalAddress, 700, "hipErrorIllegalAddress"},
        {hipErrorLaunchTimeOut, 702, "hipErrorLaunchTimeOut"},
        {hipErrorContextIsDestroyed, 709, "hipErrorContextIsDestroyed"},
        {hipErrorLaunchFailure, 719, "hipErrorLaunchFailure"},
        {hipErrorNotSupported, 801, "hipErrorNotSupported"},
        {hipErrorStreamCaptureUnsupported, 900, "hipErrorStreamCaptureUnsupported"},
        {hipErrorStreamCaptureInvalidated, 901, "hipErrorStreamCaptureInvalidated"},
        {hipErrorStreamCaptureImplicit, 906, "hipErrorStreamCaptureImplicit"},
        {hipErrorCapturedEvent, 907, "hipErrorCapturedEvent"},
        {hipErrorGraphExecUpdateFailure, 910, "hipErrorGraphExecUpdateFailure"},
        {hipErrorUnknown, 999, "hipErrorUnknown"},
    };
    for (const auto& [error, value, name] : errors) {
      CHECK(static_cast<int>(error) == value);
      CHECK(hipGetErrorName(error) == std::string(name));
    }
  }

  TEST_CASE("an error that HIP has no name for keeps CUDA's") {
    CHECK(hipGetErrorName(cudaErrorStubLibrary) == std::string("cudaErrorStubLibrary"));
  }

  TEST_CASE("errors are described") { CHECK(std::string(hipGetErrorString(hipErrorOutOfMemory)) == "out of memory"); }
}

TEST_CASE("a failed call is its thread's last error until asked for") {
  (void)hipGetLastError();
  void* memory = nullptr;
  CHECK_IS(hipMalloc(&memory, std::size_t{1} << 60), hipErrorOutOfMemory);
  CHECK_IS(hipPeekAtLastError(), hipErrorOutOfMemory);
  CHECK_IS(hipGetLastError(), hipErrorOutOfMemory);
  CHECK_OK(hipGetLastError());
}

TEST_CASE("wrong arguments give the errors that HIP gives") {
  const Stream stream;
  int device = -1;
  REQUIRE_OK(hipGetDevice(&device));
  CHECK_IS(hipSetDevice(1000), hipErrorInvalidDevice);
  int current = -1;
  REQUIRE_OK(hipGetDevice(&current));
  CHECK(current == device);

  CHECK_IS(hipMalloc(static_cast<void**>(nullptr), 4), hipErrorInvalidValue);
  AddArguments arguments(nullptr, 0, 0);
  // Which error a launch gets depends on CUDA's version.
  int no_kernel = 0;
  CHECK(hipLaunchKernel(add_kernel(), dim3(1), dim3(100000), arguments.pointers, 0, stream) != hipSuccess);
  CHECK(hipLaunchKernel(add_kernel(), dim3(0), dim3(1), arguments.pointers, 0, stream) != hipSuccess);
  CHECK(hipLaunchKernel(&no_kernel, dim3(1), dim3(1), arguments.pointers, 0, stream) != hipSuccess);
  (void)hipGetLastError();
  stream.wait();
}
