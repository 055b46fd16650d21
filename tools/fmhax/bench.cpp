#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench_run.hpp"
#include "commands.hpp"
#include "offered_types.hpp"
#include "problem_flags.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

struct BenchFlags {
  ProblemFlags problem;
  BenchOptions options;
  std::string lengths;
  std::int64_t capacity_factor = 1;
  bool only_device = false;
  bool only_host = false;
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
    if (!is_offered(dtype)) continue;
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
  json row = json::object();
  const auto put = [&row](const char* name, const auto& value) {
    if (value) row[name] = *value;
  };
  put("host_us", times.host_us);
  put("host_instructions", times.host_instructions);
  put("hip_calls", times.hip_calls);
  put("device_ms", times.device_ms);
  put("in_a_row_ms", times.in_a_row_ms);
  put("tflops", times.tflops);
  return row;
}

json to_json(const BenchResult& result) {
  json row{{"problem", result.problem},
           {"kernel", result.kernel},
           {"workspace_bytes", result.workspace_bytes},
           {"flops", result.flops}};
  for (const BenchWay& way : result.ways) row[way.name] = to_json(way.times);
  return row;
}

void print(const BenchResult& r) {
  fmt::print("{}\n  kernel {}, workspace {} bytes, {:.3f} GFLOP\n", r.problem, r.kernel, r.workspace_bytes,
             r.flops / 1e9);
  std::size_t width = 0;
  for (const BenchWay& way : r.ways) width = std::max(width, way.name.size());
  fmt::print("  {:<{}} {:>10} {:>13} {:>10} {:>12} {:>12} {:>10}\n", "", width, "host us", "instructions", "HIP calls",
             "device ms", "in a row ms", "TFLOP/s");
  const auto cell = [](const auto& value, const char* form) {
    return value ? fmt::format(fmt::runtime(form), *value) : std::string("-");
  };
  for (const BenchWay& way : r.ways) {
    const ModeTimes& t = way.times;
    fmt::print("  {:<{}} {:>10} {:>13} {:>10} {:>12} {:>12} {:>10}\n", way.name, width, cell(t.host_us, "{:.1f}"),
               cell(t.host_instructions, "{:.0f}"), cell(t.hip_calls, "{}"), cell(t.device_ms, "{:.4f}"),
               cell(t.in_a_row_ms, "{:.4f}"), cell(t.tflops, "{:.4f}"));
  }
}

/// The cases that the flags ask for.
std::vector<verification::Case> cases_of(const BenchFlags& flags) {
  ProblemFlags problem = flags.problem;
  if (flags.capacity_factor < 1) {
    throw UsageError(fmt::format("--capacity-factor is {}; it must be at least 1", flags.capacity_factor));
  }
  if (flags.lengths.empty()) {
    if (flags.capacity_factor > 1) throw UsageError("--capacity-factor is for --lengths");
    return problem.given().empty() ? default_cases() : std::vector{problem.to_case()};
  }
  if (!problem.seqlens_q.empty() || !problem.seqlens_k.empty() || problem.total_q || problem.total_k) {
    throw UsageError("--lengths gives both sides' lengths; it can't be combined with --seqlens-* and --total-*");
  }
  problem.is_group_mode = true;
  problem.seqlens_q = flags.lengths;
  std::int64_t tokens = 0;
  for (const std::int32_t length : parse_lengths("--lengths", flags.lengths)) tokens += length;
  problem.total_q = problem.total_k = tokens * flags.capacity_factor;
  return {problem.to_case()};
}

int run(const BenchFlags& flags) {
  BenchOptions options = flags.options;
  if (options.iterations < 1) {
    throw UsageError(fmt::format("--iterations is {}; it must be at least 1", options.iterations));
  }
  if (options.warmup < 0) throw UsageError(fmt::format("--warmup is {}; it must be 0 or more", options.warmup));
  options.measures_host = !flags.only_device;
  options.measures_device = !flags.only_host;
  json results = json::array();
  for (const verification::Case& c : cases_of(flags)) {
    const BenchResult result = bench(c, flags.problem.executor_options(), options);
    if (flags.prints_json) {
      results.push_back(to_json(result));
    } else {
      print(result);
    }
  }
  if (flags.prints_json) {
    const json document{{"iterations", options.iterations}, {"warmup", options.warmup}, {"results", results}};
    fmt::print("{}\n", document.dump(2));
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& application) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* app = application.add_subcommand("bench",
                                             "Time the given problem, or a list of typical ones, eagerly and as a "
                                             "graph (medians, on inputs in rotation); instructions are those of the "
                                             "calling thread, where the processor counts them");
  flags->problem.add_to(*app);
  app->add_option("--iterations", flags->options.iterations, "Timed calls of each kind (default 20)");
  app->add_option("--warmup", flags->options.warmup, "Calls before that (default 3)");
  app->add_option("--lengths", flags->lengths, "Packed sequences of these lengths, e.g. 512,300,1");
  app->add_option("--capacity-factor", flags->capacity_factor,
                  "With --lengths: rows of the tensors for each token (default 1)");
  app->add_flag("--paths", flags->options.covers_paths,
                "Packed sequences: also each metadata path and keepalive, and the kernels over a prepared workspace");
  CLI::Option* device = app->add_flag("--device-time", flags->only_device, "Only the device's times");
  app->add_flag("--host-time", flags->only_host, "Only the host's times")->excludes(device);
  app->add_flag("--json", flags->prints_json, "Print the result as JSON");
  return {app, [flags] { return run(*flags); }};
}

}  // namespace fmhax::tool
