/// @file Without a device only the suite "needs no device" runs, and the program says that it skipped the rest.
#include <hip/hip_runtime.h>

#include <cstdio>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  int devices = 0;
  const hipError_t error = hipGetDeviceCount(&devices);
  const bool has_device = error == hipSuccess && devices > 0;
  doctest::Context context(argc, argv);
  if (!has_device) context.addFilter("test-suite", "needs no device");
  const int result = context.run();
  if (has_device || result != 0 || context.shouldExit()) return result;
  std::printf("skipped: there is no device (%s)\n", hipGetErrorName(error));
  return kSkipped;
}
