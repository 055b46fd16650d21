/// @file doctest's main() for tests on a device: without one only the suite "needs no device" runs, and the program
/// says that the rest was skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "device_check/device_check.h"

int main(int argc, char** argv) {
  const bool has_device = require_device("skipped");
  doctest::Context context(argc, argv);
  if (!has_device) context.addFilter("test-suite", "needs no device");
  const int result = context.run();
  return has_device || result != 0 || context.shouldExit() ? result : kNoDeviceStatus;
}
