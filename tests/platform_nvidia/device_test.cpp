#include <string>

#include "c_program.h"
#include "kernels.hpp"
#include "support.hpp"

using namespace test;

TEST_CASE("a device is described, its architecture by the compute capability") {
  int device = -1;
  REQUIRE_OK(hipGetDevice(&device));
  hipDeviceProp_t properties{};
  REQUIRE_OK(hipGetDeviceProperties(&properties, device));
  MESSAGE(std::string(properties.name), ", ", std::string(properties.gcnArchName));
  CHECK(properties.name[0] != '\0');
  CHECK(properties.gcnArchName == "sm_" + std::to_string(properties.major * 10 + properties.minor));
  CHECK(properties.major >= 8);
  CHECK(properties.multiProcessorCount > 0);
  CHECK(properties.warpSize == 32);
  CHECK(properties.maxThreadsPerBlock == 1024);
  CHECK(properties.sharedMemPerBlock >= 48 * 1024);
  CHECK(properties.totalGlobalMem > std::size_t{1} << 30);
  CHECK_IS(hipGetDeviceProperties(&properties, 1000), hipErrorInvalidDevice);
  (void)hipGetLastError();
}

TEST_CASE("a function may be allowed more shared memory than every function has") {
  int device = -1, most = 0;
  REQUIRE_OK(hipGetDevice(&device));
  hipDeviceProp_t properties{};
  REQUIRE_OK(hipGetDeviceProperties(&properties, device));
  REQUIRE_OK(hipDeviceGetAttribute(&most, hipDeviceAttributeSharedMemPerBlockOptin, device));
  CHECK(static_cast<std::size_t>(most) > properties.sharedMemPerBlock);

  const Stream stream;
  const DeviceWords words(8);
  AddArguments arguments(words.data(), 8, 7);
  const auto launch = [&] {
    return hipLaunchKernel(add_kernel(), dim3(1), dim3(32), arguments.pointers, static_cast<std::size_t>(most), stream);
  };
  CHECK(launch() != hipSuccess);
  (void)hipGetLastError();
  REQUIRE_OK(hipFuncSetAttribute(add_kernel(), hipFuncAttributeMaxDynamicSharedMemorySize, most));
  hipFuncAttributes attributes{};
  REQUIRE_OK(hipFuncGetAttributes(&attributes, add_kernel()));
  CHECK(attributes.maxDynamicSharedSizeBytes == most);
  REQUIRE_OK(launch());
  stream.wait();
  CHECK(words.read() == Words(8, 7));
  CHECK_IS(hipFuncSetAttribute(add_kernel(), hipFuncAttributeMaxDynamicSharedMemorySize, most + 1),
           hipErrorInvalidValue);
  (void)hipGetLastError();
}

TEST_CASE("each device can be made current, and streams belong to the one that was") {
  int count = 0, former = -1;
  REQUIRE_OK(hipGetDeviceCount(&count));
  REQUIRE_OK(hipGetDevice(&former));
  for (int device = 0; device < count; ++device) {
    REQUIRE_OK(hipSetDevice(device));
    const Stream stream;
    REQUIRE_OK(hipSetDevice(former));
    int found = -1;
    CHECK_OK(hipStreamGetDevice(stream, &found));
    CHECK(found == device);
  }
  int found = -1;
  CHECK_OK(hipStreamGetDevice(nullptr, &found));
  CHECK(found == former);
}

TEST_CASE("the calls are there for C programs too") { CHECK(run_c_program() == 0); }
