/// @file A run: the same step again and again, from a replayed graph or enqueued anew.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gradient_check.hpp"
#include "training_step.hpp"

namespace fmhax::train {

enum class Mode {
  graph,  ///< captured once, replayed in every step
  eager   ///< enqueued in every step
};
const char* to_string(Mode mode) noexcept;

/// What a run tells about itself while it goes on.
struct Progress {
  Mode mode = Mode::graph;
  StepRecord latest;  ///< of the latest step that the host knows the loss of
  std::int64_t total_steps = 0;
  double tokens_per_second = 0;
  double host_us_per_step = 0;  ///< of the latest step that was enqueued
};

struct RunOptions {
  Mode mode = Mode::graph;
  std::int64_t steps = 0;
  std::int64_t gradient_checks = 0;  ///< steps, evenly spread, after which the attention gradients are compared
  std::function<void(const Progress&)> on_progress{};  ///< called between steps, outside of what is timed
};

struct RunResult {
  std::vector<StepRecord> records;  ///< one for each step
  double host_us_per_step = 0;      ///< median time that a step takes the calling thread
  double tokens_per_second = 0;     ///< trained on, over the whole run but for the gradient checks
  std::int64_t graph_builds = 0;
  std::int64_t replays = 0;
  std::int64_t graph_nodes = 0;
  std::int64_t distinct_batches = 0;
  AttentionError max_error;       ///< of the checked steps
  std::vector<float> parameters;  ///< after the last step
};

/// Runs a fresh `step`. The host waits in three places, all outside of what host_us_per_step times: it stays at most
/// kRunAhead steps ahead of the device, it lets the stream run empty before a gradient check, and at the end.
/// Throws std::runtime_error when a HIP call fails or the device refused a batch's sequence starts.
RunResult run(TrainingStep& step, const RunOptions& options);

/// Steps that may be enqueued and not finished.
inline constexpr std::int64_t kRunAhead = 4;

}  // namespace fmhax::train
