// Every HIP call that the library makes, and every allocator of the caller's, fails once.
#include <string>

#include <doctest/doctest.h>

#include "explore_run.hpp"

using namespace fmhax::tool;

TEST_CASE("any failing call gives an error with its name, leaves nothing behind and spoils nothing") {
  Explorations explorations;
  for (const auto& scenario : explorations.scenarios()) {
    const std::string name = scenario->name();
    CAPTURE(name);
    for (const std::uint64_t seed : {0, 1, 2}) {
      CAPTURE(seed);
      const FaultSummary summary = explorations.run_faults(*scenario, seed);
      MESSAGE(name << ", seed " << seed << ": " << summary.hip_calls << " HIP calls, " << summary.allocator_calls
                   << " allocator calls");
      CHECK_GE(summary.hip_calls, 50);
      for (const FaultFinding& finding : summary.findings) {
        FAIL_CHECK("call " << finding.point << " (" << finding.call << "): " << finding.what);
      }
      if (name == "allocators") CHECK_GE(summary.allocator_calls, 10);
    }
  }
}
