#include "verify_random.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "offered_types.hpp"
#include "verification/parallel.hpp"
#include "verification/random_problem.hpp"

namespace fmhax::tool {
namespace {

/// A line that is overwritten, for somebody who watches.
void show_progress(std::uint64_t done, std::uint64_t count) {
  if (isatty(STDERR_FILENO) == 0 || (done % 16 != 0 && done != count)) return;
  fmt::print(stderr, "\r{} of {} problems{}", done, count, done == count ? "\n" : "");
  std::fflush(stderr);
}

/// Hands the reports to the summary in the order of their indices, whatever order they come in.
class OrderedReports {
 public:
  OrderedReports(const RandomRun& run, VerifySummary& summary) : run_(run), summary_(summary), next_(run.first) {}

  void add(std::uint64_t index, verification::Case c, verification::CaseReport report) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(index, std::pair{std::move(c), std::move(report)});
    for (auto it = waiting_.find(next_); it != waiting_.end(); it = waiting_.find(next_)) {
      summary_.add(next_, it->second.first, it->second.second);
      waiting_.erase(it);
      ++next_;
    }
    if (run_.shows_progress) show_progress(next_ - run_.first, run_.count);
  }

 private:
  const RandomRun& run_;
  VerifySummary& summary_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::pair<verification::Case, verification::CaseReport>> waiting_;
  std::uint64_t next_;
};

verification::CaseReport report_of(const verification::Case& c, const RandomRun& run) {
  using verification::RunMode;
  try {
    return verify(verification::prepare(c), {RunMode::eager, RunMode::graph}, run.options, run.repeats);
  } catch (const std::exception& error) {
    verification::CaseReport report;
    report.failure = error.what();
    return report;
  }
}

}  // namespace

verification::Case random_case(std::uint64_t seed, std::uint64_t index, double work) {
  verification::Case c = verification::random_problem(seed, index, work);
  const std::vector<DataType>& types = offered_types();
  if (!is_offered(c.problem.dtype) && !types.empty()) c.problem.dtype = types[index % types.size()];
  c.problem.hdim_q = std::min(c.problem.hdim_q, largest_offered_hdim());
  c.problem.hdim_v = std::min(c.problem.hdim_v, largest_offered_hdim());
  return c;
}

void verify_random(const RandomRun& run, VerifySummary& summary) {
  (void)offered_types();  // throws here, not on a thread, when there is no device
  OrderedReports reports(run, summary);
  const int jobs = run.jobs > 0 ? run.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  verification::parallel_for(static_cast<std::int64_t>(run.count), jobs, [&](std::int64_t i) {
    const std::uint64_t index = run.first + static_cast<std::uint64_t>(i);
    // The problems are what runs side by side; a single one may use every core.
    const verification::ThreadLimit limit(run.count > 1 && jobs > 1 ? 1 : 0);
    verification::Case c = random_case(run.seed, index, run.work);
    verification::CaseReport report = report_of(c, run);
    reports.add(index, std::move(c), std::move(report));
  });
}

}  // namespace fmhax::tool
