#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "problem_flags.hpp"
#include "verification/verify_case.hpp"
#include "verify_random.hpp"
#include "verify_summary.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;
using verification::RunMode;

const std::vector<RunMode>& modes() {
  static const std::vector<RunMode> kModes{RunMode::eager, RunMode::graph};
  return kModes;
}

struct VerifyFlags {
  ProblemFlags problem;
  std::uint64_t random = 0;
  std::uint64_t seed = 7;
  std::uint64_t first = 0;
  double work = RandomRun{}.work;
  int jobs = 0;
  int repeats = 1;
  bool prints_json = false;
  CLI::Option* random_option = nullptr;
  CLI::Option* first_option = nullptr;
  CLI::Option* work_option = nullptr;
};

int run_random(const VerifyFlags& flags) {
  const bool is_work_given = flags.work_option->count() > 0;
  VerifySummary summary(flags.seed, flags.first,
                        (is_work_given ? fmt::format(" --work {}", flags.work) : "") + flags.problem.executor_flags());
  if (flags.random == 1 && !flags.prints_json) {
    fmt::print("{}\n", to_string(random_case(flags.seed, flags.first, flags.work)));
  }
  verify_random({.seed = flags.seed,
                 .first = flags.first,
                 .count = flags.random,
                 .work = flags.work,
                 .jobs = flags.jobs,
                 .repeats = flags.repeats,
                 .options = flags.problem.executor_options(),
                 .shows_progress = true},
                summary);
  if (flags.prints_json) {
    fmt::print("{}\n", summary.to_json().dump(2));
  } else {
    fmt::print("{}", summary.text());
  }
  return summary.passed() ? 0 : 1;
}

json to_json(const verification::Case& c, const verification::CaseReport& report) {
  json runs = json::array();
  for (const verification::ModeReport& mode : report.modes) {
    json row{{"mode", to_string(mode.mode)}};
    for (const verification::GradientCheck& check : mode.comparison.checks) {
      row[check.name] = {{"error", check.error}, {"tolerance", check.tolerance}, {"in_order", check.failure.empty()}};
      if (check.rounded_error >= 0) row[check.name]["rounded_formula_error"] = check.rounded_error;
    }
    runs.push_back(row);
  }
  return {{"problem", to_string(c)},   {"seed", c.seed},           {"kernel", report.kernel}, {"runs", runs},
          {"passed", report.passed()}, {"failure", report.failure}};
}

void print_table(const verification::Case& c, const verification::CaseReport& report) {
  fmt::print("{}\nkernel {}, inputs' seed {}\n\n", to_string(c), report.kernel, c.seed);
  fmt::print("{:<8} {:<4} {:>11} {:>11} {:>22}\n", "run", "", "error", "tolerance", "fp32 formula's error");
  for (const verification::ModeReport& mode : report.modes) {
    for (const verification::GradientCheck& check : mode.comparison.checks) {
      const std::string rounded = check.rounded_error < 0 ? "-" : fmt::format("{:.3e}", check.rounded_error);
      fmt::print("{:<8} {:<4} {:>11.3e} {:>11.3e} {:>22}  {}\n", to_string(mode.mode), check.name, check.error,
                 check.tolerance, rounded, check.failure);
    }
  }
  fmt::print("\n{}\n", report.passed() ? "in order" : "FAILED " + report.failure);
}

int run_given(const VerifyFlags& flags) {
  verification::Case c = flags.problem.to_case();
  c.seed = flags.seed;
  const verification::CaseReport report =
      verification::verify(verification::prepare(c), modes(), flags.problem.executor_options(), flags.repeats);
  if (flags.prints_json) {
    fmt::print("{}\n", to_json(c, report).dump(2));
  } else {
    print_table(c, report);
  }
  return report.passed() ? 0 : 1;
}

int run(const VerifyFlags& flags) {
  if (flags.repeats < 1) throw UsageError(fmt::format("--repeat is {}; it must be at least 1", flags.repeats));
  if (flags.jobs < 0) throw UsageError(fmt::format("--jobs is {}; it must be 0 or more", flags.jobs));
  if (flags.random_option->count() == 0) {
    if (flags.first_option->count() > 0) throw UsageError("--first counts random problems; add --random");
    if (flags.work_option->count() > 0) throw UsageError("--work bounds random problems; add --random");
    return run_given(flags);
  }
  if (flags.random == 0) throw UsageError("--random is 0; it must be at least 1");
  const std::vector<std::string> given = flags.problem.given();
  if (!given.empty()) {
    throw UsageError(fmt::format("{} can't be combined with --random, which draws the whole problem", given.front()));
  }
  return run_random(flags);
}

}  // namespace

Command add_verify(CLI::App& application) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* app = application.add_subcommand(
      "verify", "Compare gradients with fp64: of the given problem, or of random ones, run eagerly and as a graph");
  flags->problem.add_to(*app);
  flags->random_option = app->add_option("--random", flags->random,
                                         "Verify this many random problems of every kind instead of a given one");
  app->add_option("--seed", flags->seed, "Decides the random problems and the inputs (default 7)");
  flags->first_option =
      app->add_option("--first", flags->first, "Index of the first random problem, to repeat one (default 0)");
  flags->work_option =
      app->add_option("--work", flags->work,
                      "The most that a random problem has of batch * nhead_q * seqlen_q * seqlen_k * (hdim_q + hdim_v) "
                      "(default 1e8)");
  app->add_option("--jobs", flags->jobs, "Random problems in work at a time (default: one for each core)");
  app->add_option("--repeat", flags->repeats,
                  "Run each problem this many times of each kind (default 1; a graph is replayed at least twice); "
                  "deterministic problems must give the same bits in all of them");
  app->add_flag("--json", flags->prints_json, "Print the result as JSON");
  app->footer("Exit status 1 when a gradient is out of tolerance.");
  return {app, [flags] { return run(*flags); }};
}

}  // namespace fmhax::tool
