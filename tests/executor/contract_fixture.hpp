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
  const OwnedStream stream;
  call.device.poison_outputs();
  launch(stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
}

inline hipGraphExec_t instantiate(hipGraph_t graph) {
  hipGraphExec_t executable = nullptr;
  check_hip(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
  return executable;
}

/// Writes the same starts for q and k, whatever they are.
inline void set_starts(const CallArguments& arguments, const std::vector<std::int32_t>& starts) {
  for (const std::int32_t* to : {arguments.lengths.seqstart_q, arguments.lengths.seqstart_k}) {
    check_hip(hipMemcpy(const_cast<std::int32_t*>(to), starts.data(), starts.size() * sizeof(std::int32_t),
                        hipMemcpyHostToDevice),
              "hipMemcpy");
  }
}

}  // namespace fmhax::test
