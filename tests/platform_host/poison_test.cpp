// Runs with FMHAX_HOST_POISON=1.
#include <cmath>

#include "support.hpp"

TEST_CASE("fresh memory is NaN in every kind") {
  for (const auto where : {test::Where::kDevice, test::Where::kPinned, test::Where::kManaged}) {
    const test::Buffer<float> buffer(33, where);
    std::vector<float> host(33, 0.f);
    REQUIRE_OK(hipMemcpy(host.data(), buffer, 33 * sizeof(float), hipMemcpyDefault));
    for (const float value : host) CHECK(std::isnan(value));
  }
  const test::Stream stream;
  float* memory = nullptr;
  float value = 0;
  REQUIRE_OK(hipMallocAsync(&memory, sizeof(float), stream));
  REQUIRE_OK(hipMemcpyAsync(&value, memory, sizeof(float), hipMemcpyDeviceToHost, stream));
  CHECK(std::isnan(value));
  REQUIRE_OK(hipFreeAsync(memory, stream));
}
