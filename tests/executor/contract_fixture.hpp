/// @file What the tests of docs/graphs.md share.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"

namespace fmhax::test {

/// Launches on a stream of its own, with poisoned outputs before, and checks the call's gradients.
template <class Launch>
void check_replay(Call& call, const Launch& launch) {
  CHECK(failure_of_replay(call, launch) == "");
}

inline hipGraphExec_t instantiate(hipGraph_t graph) {
  hipGraphExec_t executable = nullptr;
  check_hip(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
  return executable;
}

/// Writes the same starts for q and k, whatever they are.
inline void set_starts(const CallArguments& arguments, const std::vector<std::int32_t>& starts) {
  set_starts(arguments, starts, starts);
}

}  // namespace fmhax::test
