#include "verification/verify_case.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "fmhax/error.hpp"

namespace fmhax::verification {
namespace {

/// What is wrong with one run, if anything.
std::string failure_of(const RunResult& run, const Comparison& comparison, bool is_deterministic,
                       const std::optional<Gradients>& first) {
  if (!run.violation.empty()) return run.violation;
  if (run.status.code != StatusCode::ok) return "status: " + to_string(run.status);
  if (!comparison.passed()) return comparison.failure();
  if (is_deterministic && first && !same_bits(run.gradients, *first)) {
    return "deterministic, yet not the same bits as the first run";
  }
  return {};
}

}  // namespace

PreparedCase prepare(const Case& c) {
  PreparedCase prepared{c, draw_inputs(c), {}};
  prepared.expected = expected_of(prepared.inputs);
  return prepared;
}

CaseReport verify(const PreparedCase& prepared, const std::vector<RunMode>& modes, const ExecutorOptions& options,
                  int repeats) {
  const Case& c = prepared.source;
  CaseReport report;
  try {
    const Executor executor(c.problem, options);
    report.kernel = executor.kernel_choice().entry().name;
    DeviceProblem device(c, prepared.inputs, prepared.expected.forward, executor);
    std::optional<Gradients> first;
    for (const RunMode mode : modes) {
      const bool is_replayed = mode == RunMode::captured || mode == RunMode::graph;
      int replay = 0;
      for (const RunResult& run : device.run(mode, std::max(repeats, is_replayed ? 2 : 1))) {
        ++replay;
        report.modes.push_back({mode, compare(c, run.gradients, prepared.expected)});
        const std::string failure = failure_of(run, report.modes.back().comparison, c.problem.is_deterministic, first);
        if (report.failure.empty() && !failure.empty()) {
          report.failure = fmt::format("{} run {}: {}", to_string(mode), replay, failure);
        }
        if (!first) first = run.gradients;
      }
    }
  } catch (const Error& error) {
    report.failure = fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return report;
}

}  // namespace fmhax::verification
