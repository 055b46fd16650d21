#include <cstring>
#include <string>

#include "support.hpp"

extern "C" int run_c_program(void);

TEST_CASE("a C program uses the runtime") { CHECK_EQ(run_c_program(), 0); }

TEST_CASE("the device names itself and its pool") {
  hipDeviceProp_t properties;
  REQUIRE_OK(hipGetDeviceProperties(&properties, 0));
  const std::string expected = "fmhax host (" + std::to_string(properties.multiProcessorCount) + " threads)";
  CHECK_EQ(std::string(properties.name), expected);
  int processors = 0;
  REQUIRE_OK(hipDeviceGetAttribute(&processors, hipDeviceAttributeMultiprocessorCount, 0));
  CHECK_EQ(processors, properties.multiProcessorCount);
  char name[8];
  REQUIRE_OK(hipDeviceGetName(name, sizeof(name), 0));
  CHECK_EQ(std::string(name), "fmhax h");
  int version = 0;
  REQUIRE_OK(hipRuntimeGetVersion(&version));
  CHECK_EQ(version, 60400000);
}

TEST_CASE("device numbers that don't exist are refused") {
  int count = 0;
  REQUIRE_OK(hipGetDeviceCount(&count));
  CHECK_IS(hipSetDevice(count), hipErrorInvalidDevice);
  CHECK_IS(hipSetDevice(-1), hipErrorInvalidDevice);
  int value = 0;
  CHECK_IS(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, count), hipErrorInvalidDevice);
  CHECK_IS(hipDeviceGetAttribute(&value, static_cast<hipDeviceAttribute_t>(12345), 0), hipErrorInvalidValue);
  CHECK_IS(hipDeviceGetAttribute(nullptr, hipDeviceAttributeWarpSize, 0), hipErrorInvalidValue);
  CHECK_IS(hipGetDeviceProperties(nullptr, 0), hipErrorInvalidValue);
  CHECK_IS(hipGetDeviceCount(nullptr), hipErrorInvalidValue);
}

TEST_CASE("the last error is kept until it is read, and is not sticky") {
  (void)hipGetLastError();
  CHECK_IS(hipSetDevice(-1), hipErrorInvalidDevice);
  CHECK_OK(hipSetDevice(0));
  CHECK_IS(hipPeekAtLastError(), hipErrorInvalidDevice);
  CHECK_IS(hipGetLastError(), hipErrorInvalidDevice);
  CHECK_OK(hipGetLastError());
  CHECK_IS(hipSetDevice(-1), hipErrorInvalidDevice);
  CHECK_IS(hipExtGetLastError(), hipErrorInvalidDevice);
  (void)hipGetLastError();
}

TEST_CASE("not ready is no error to remember") {
  test::Gate gate;
  const test::Stream stream;
  (void)hipGetLastError();
  REQUIRE_OK(hipLaunchHostFunc(stream, test::Gate::host_function, &gate));
  CHECK_IS(hipStreamQuery(stream), hipErrorNotReady);
  CHECK_OK(hipPeekAtLastError());
  gate.open();
  REQUIRE_OK(hipStreamSynchronize(stream));
}

TEST_CASE("errors belong to their thread") {
  (void)hipGetLastError();
  std::thread([] { CHECK_IS(hipSetDevice(-1), hipErrorInvalidDevice); }).join();
  CHECK_OK(hipPeekAtLastError());
}

TEST_CASE("errors have HIP's own names") {
  CHECK_EQ(std::string(hipGetErrorName(hipErrorStreamCaptureUnjoined)), "hipErrorStreamCaptureUnjoined");
  CHECK_EQ(std::string(hipGetErrorName(hipErrorOutOfMemory)), "hipErrorOutOfMemory");
  CHECK_EQ(std::string(hipGetErrorString(hipSuccess)), "no error");
  CHECK_EQ(std::string(hipGetErrorName(static_cast<hipError_t>(1500))), "hipErrorUnknown");
  const char* text = nullptr;
  CHECK_OK(hipDrvGetErrorName(hipErrorNotReady, &text));
  CHECK_EQ(std::string(text), "hipErrorNotReady");
  CHECK_IS(hipDrvGetErrorName(static_cast<hipError_t>(1500), &text), hipErrorInvalidValue);
}
