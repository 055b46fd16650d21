#include "trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "captured_graph.hpp"

namespace fmhax::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Keeps the host at most kRunAhead steps ahead, so that neither memory for queued work nor the log's ring run out.
class RunAheadLimit {
 public:
  /// Blocks until there is room for another step.
  void wait_for_room() const { oldest().wait(); }
  /// To be called when a step was enqueued.
  void mark(hipStream_t stream) {
    oldest().record(stream);
    ++marked_;
  }

 private:
  const Event& oldest() const { return ends_[static_cast<std::size_t>(marked_ % kRunAhead)]; }

  std::array<Event, kRunAhead> ends_;
  std::int64_t marked_ = 0;
};

/// True for `checks` of the steps, the last one among them.
bool is_checked(std::int64_t step, const RunOptions& options) {
  return (step + 1) * options.gradient_checks / options.steps > step * options.gradient_checks / options.steps;
}

std::vector<float> read_parameters(const TrainingStep& step) {
  const DeviceBuffer<float>& parameters = step.model().parameters();
  std::vector<float> values(static_cast<std::size_t>(parameters.count()));
  check(hipMemcpy(values.data(), parameters.data(), values.size() * sizeof(float), hipMemcpyDeviceToHost), "hipMemcpy");
  return values;
}

}  // namespace

const char* to_string(Mode mode) noexcept { return mode == Mode::graph ? "graph" : "eager"; }

RunResult run(TrainingStep& step, const RunOptions& options) {
  RunResult result;
  const Stream stream;
  std::unique_ptr<CapturedGraph> graph;
  if (options.mode == Mode::graph) {
    graph = std::make_unique<CapturedGraph>(stream.get(), [&](hipStream_t capturing) { step.enqueue(capturing); });
    result.graph_builds = 1;
    result.graph_nodes = graph->node_count();
  }

  RunAheadLimit limit;
  std::vector<double> host_us;
  std::int64_t tokens = 0;
  double checking_seconds = 0;
  const Clock::time_point start = Clock::now();
  const auto take_records = [&] {
    for (const StepRecord& record : step.log().take_published()) {
      result.records.push_back(record);
      tokens += record.target_count;
    }
    result.tokens_per_second = static_cast<double>(tokens) / (seconds_since(start) - checking_seconds);
    if (options.on_progress && !result.records.empty()) {
      options.on_progress(
          {options.mode, result.records.back(), options.steps, result.tokens_per_second, host_us.back()});
    }
  };

  for (std::int64_t i = 0; i < options.steps; ++i) {
    limit.wait_for_room();

    const Clock::time_point begin = Clock::now();
    if (graph != nullptr) {
      graph->launch(stream.get());
      ++result.replays;
    } else {
      step.enqueue(stream.get());
    }
    host_us.push_back(1e6 * seconds_since(begin));

    limit.mark(stream.get());
    if (is_checked(i, options)) {
      stream.wait();
      const Clock::time_point checking = Clock::now();
      const AttentionError error = attention_error(step);
      result.max_error.gradient = std::max(result.max_error.gradient, error.gradient);
      result.max_error.output = std::max(result.max_error.output, error.output);
      checking_seconds += seconds_since(checking);
    }
    take_records();
  }
  stream.wait();
  take_records();

  result.host_us_per_step = median(std::move(host_us));
  result.distinct_batches = step.loader().distinct_batches();
  result.parameters = read_parameters(step);
  return result;
}

}  // namespace fmhax::train
