#include <hiphost/observe.hpp>

#include <string>
#include <utility>

#include "support.hpp"

namespace {

struct Recorder final : hiphost::ApiObserver {
  void entered(const char* function) noexcept override { ++depth, names += std::string(function) + " "; }
  void left(const char*, hipError_t result) noexcept override { --depth, last = result; }
  int depth = 0;
  std::string names;
  hipError_t last = hipSuccess;
};

}  // namespace

TEST_CASE("an observer sees every call and its result, while it observes") {
  Recorder recorder;
  int device = -1;
  {
    const hiphost::ApiObservation observation(recorder);
    CHECK_EQ(hipGetDevice(&device), hipSuccess);
    CHECK_EQ(recorder.last, hipSuccess);
    CHECK_EQ(hipSetDevice(-1), hipErrorInvalidDevice);
    CHECK_EQ(recorder.last, hipErrorInvalidDevice);
  }
  CHECK_EQ(hipGetDevice(&device), hipSuccess);
  CHECK_EQ(recorder.names, "hipGetDevice hipSetDevice ");
  CHECK_EQ(recorder.depth, 0);
}
