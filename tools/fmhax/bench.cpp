#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench_run.hpp"
#include "commands.hpp"
#include "problem_flags.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

struct BenchFlags {
  ProblemFlags problem;
  BenchOptions options;
  bool prints_json = false;
};

/// What is measured when no problem is given.
std::vector<verification::Case> default_cases() {
  std::vector<verification::Case> cases;
  ProblemFlags tiny;  // so little work that the host's part is seen alone
  tiny.is_group_mode = true;
  tiny.seqlens_q = "129,16,16,16";
  tiny.total_q = tiny.total_k = 1024;
  tiny.nhead_q = 1;
  tiny.hdim_q = 32;
  cases.push_back(tiny.to_case());
  for (const DataType dtype : {DataType::fp32, DataType::bf16}) {
    for (const Mask& mask : {Mask::none(), Mask::causal()}) {
      ProblemFlags dense;
      dense.batch = 2;
      dense.seqlen_q = 1024;
      verification::Case c = dense.to_case();
      c.problem.dtype = dtype;
      c.problem.mask = mask;
      cases.push_back(c);
    }
  }
  ProblemFlags grouped;
  grouped.is_group_mode = true;
  grouped.seqlens_q = "1024,512,512,128,64,1,0";
  grouped.nhead_q = 8;
  grouped.nhead_k = 2;
  grouped.hdim_q = 128;
  grouped.mask = "causal";
  for (const bool is_deterministic : {false, true}) {
    grouped.is_deterministic = is_deterministic;
    cases.push_back(grouped.to_case());
  }
  return cases;
}

json to_json(const ModeTimes& times) {
  json row{{"host_us", times.host_us}, {"device_ms", times.device_ms}, {"tflops", times.tflops}};
  if (times.host_instructions) row["host_instructions"] = *times.host_instructions;
  if (times.hip_calls) row["hip_calls"] = *times.hip_calls;
  return row;
}

void print_row(const char* mode, const ModeTimes& times) {
  const std::string instructions = times.host_instructions ? fmt::format("{:.0f}", *times.host_instructions) : "-";
  const std::string calls = times.hip_calls ? fmt::format("{}", *times.hip_calls) : "-";
  fmt::print("  {:<6} {:>10.1f} {:>13} {:>10} {:>12.3f} {:>10.4f}\n", mode, times.host_us, instructions, calls,
             times.device_ms, times.tflops);
}

int run(const BenchFlags& flags) {
  if (flags.options.iterations < 1) {
    throw UsageError(fmt::format("--iterations is {}; it must be at least 1", flags.options.iterations));
  }
  if (flags.options.warmup < 0)
    throw UsageError(fmt::format("--warmup is {}; it must be 0 or more", flags.options.warmup));
  const auto cases = flags.problem.given().empty() ? default_cases() : std::vector{flags.problem.to_case()};
  json results = json::array();
  for (const verification::Case& c : cases) {
    const BenchResult r = bench(c, flags.problem.executor_options(), flags.options);
    if (flags.prints_json) {
      results.push_back({{"problem", r.problem},
                         {"kernel", r.kernel},
                         {"workspace_bytes", r.workspace_bytes},
                         {"flops", r.flops},
                         {"eager", to_json(r.eager)},
                         {"graph", to_json(r.graph)}});
      continue;
    }
    fmt::print("{}\n  kernel {}, workspace {} bytes, {:.3f} GFLOP\n", r.problem, r.kernel, r.workspace_bytes,
               r.flops / 1e9);
    fmt::print("  {:<6} {:>10} {:>13} {:>10} {:>12} {:>10}\n", "", "host us", "instructions", "HIP calls", "device ms",
               "TFLOP/s");
    print_row("eager", r.eager);
    print_row("graph", r.graph);
  }
  if (flags.prints_json) {
    const json document{
        {"iterations", flags.options.iterations}, {"warmup", flags.options.warmup}, {"results", results}};
    fmt::print("{}\n", document.dump(2));
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& application) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* app = application.add_subcommand("bench",
                                             "Time the given problem, or a list of typical ones, eagerly and as a "
                                             "graph (medians); instructions are those of the "
                                             "calling thread, where the processor counts them");
  flags->problem.add_to(*app);
  app->add_option("--iterations", flags->options.iterations, "Timed calls of each kind (default 20)");
  app->add_option("--warmup", flags->options.warmup, "Calls before that (default 3)");
  app->add_flag("--json", flags->prints_json, "Print the result as JSON");
  return {app, [flags] { return run(*flags); }};
}

}  // namespace fmhax::tool
