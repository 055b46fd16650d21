/// @file Times of one problem, eager and as a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fmhax/executor.hpp"
#include "verification/case.hpp"

namespace fmhax::tool {

struct BenchOptions {
  int warmup = 3;
  int iterations = 20;
};

struct ModeTimes {
  double host_us = 0.0;                       ///< the call itself, on an idle stream
  std::optional<double> host_instructions{};  ///< of the calling thread in user mode, if the processor counts them
  std::optional<std::uint64_t> hip_calls{};   ///< made by the call, on platforms that tell
  double device_ms = 0.0;                     ///< between events around it
  double tflops = 0.0;
};

struct BenchResult {
  std::string problem;
  std::string kernel;
  std::int64_t workspace_bytes = 0;
  double flops = 0.0;
  ModeTimes eager;
  ModeTimes graph;
};

/// 2.5 times the forward's 2 * pairs * (hdim_q + hdim_v), with pairs summed over sequences and query heads:
/// seqlen_q * seqlen_k, half that for causal masks, the visible ones for windows.
double flops_of(const verification::Case& c);

/// Medians over the iterations. Inputs rotate over several copies, so that they don't sit in the cache.
BenchResult bench(const verification::Case& c, const ExecutorOptions& executor_options, const BenchOptions& options);

}  // namespace fmhax::tool
