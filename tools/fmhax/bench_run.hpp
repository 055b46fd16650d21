/// @file Times of one problem, eager and as a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fmhax/executor.hpp"
#include "verification/case.hpp"

namespace fmhax::tool {

struct BenchOptions {
  int warmup = 3;
  int iterations = 20;
  bool measures_host = true;
  bool measures_device = true;
  /// Also each metadata path and keepalive that the kernel has, and the kernels alone over a workspace that was
  /// prepared before; for packed sequences.
  bool covers_paths = false;
};

struct ModeTimes {
  std::optional<double> host_us{};            ///< the call itself, on an idle stream
  std::optional<double> host_instructions{};  ///< of the calling thread in user mode, if the processor counts them
  std::optional<std::uint64_t> hip_calls{};   ///< made by the call, on platforms that tell
  std::optional<double> device_ms{};    ///< between events around it, all enqueued before the stream gets to the first
  std::optional<double> in_a_row_ms{};  ///< of one of many calls enqueued one after another
  std::optional<double> tflops{};       ///< from device_ms
};

/// One way of asking for the same gradients.
struct BenchWay {
  std::string name;  ///< e.g. "eager", "graph, device metadata"
  ModeTimes times;
};

struct BenchResult {
  std::string problem;
  std::string kernel;
  std::int64_t workspace_bytes = 0;
  double flops = 0.0;
  std::vector<BenchWay> ways;  ///< "eager" and "graph" with the given options first
};

/// 2.5 times the forward's 2 * pairs * (hdim_q + hdim_v), with pairs summed over sequences and query heads:
/// seqlen_q * seqlen_k, half that for causal masks, the visible ones for windows.
double flops_of(const verification::Case& c);

/// Medians over the iterations. Inputs rotate over several copies, so that they don't sit in the cache.
BenchResult bench(const verification::Case& c, const ExecutorOptions& executor_options, const BenchOptions& options);

}  // namespace fmhax::tool
