// Backward passes of micro-batches beside the upload of the next and the download of the previous one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "chrome_trace.hpp"
#include "pipeline.hpp"
#include "svg.hpp"

namespace fmhax::sample {
namespace {

struct Options {
  std::int64_t tokens = 2048;
  std::int64_t nhead = 4;
  std::int64_t hdim = 64;
  std::int64_t max_seqlen = 64;
  std::size_t micro_batches = 12;
  int rounds = 5;
  unsigned kernel_threads = std::max(1U, std::thread::hardware_concurrency() - 1);
  std::string trace;
  std::string svg;
};

/// The runs of one schedule, of which the one of median wall time stands for all.
struct Measurement {
  std::vector<RunResult> runs;

  const RunResult& median() {
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    std::nth_element(runs.begin(), middle, runs.end(),
                     [](const RunResult& a, const RunResult& b) { return a.wall_ms < b.wall_ms; });
    return *middle;
  }
};

TimelinePanel make_panel(const std::string& title, const RunResult& run, Schedule schedule) {
  TimelinePanel panel{title, {}, {}};
  if (schedule == Schedule::one_stream) {
    panel.lanes = {"one stream"};
  } else {
    for (std::size_t s = 0; s < kStages; ++s) panel.lanes.emplace_back(to_string(static_cast<Stage>(s)));
  }
  for (const Operation& operation : run.operations) {
    const std::size_t lane = schedule == Schedule::one_stream ? 0 : static_cast<std::size_t>(operation.stage);
    panel.spans.push_back({lane, operation.begin_ms, operation.end_ms, to_string(operation.stage),
                           operation.stage == Stage::backward ? fmt::format("{}", operation.micro_batch) : ""});
  }
  return panel;
}

nlohmann::json to_json(const RunResult& run, double work_ms) {
  return {{"wall_ms", run.wall_ms},
          {"device_busy_ms", run.device_busy_ms},
          {"stages_busy_ms", run.stages_busy_ms},
          {"device_busy_over_wall", run.device_overlap()},
          {"device_work_over_wall", work_ms / run.wall_ms}};
}

int run(const Options& options) {
  const Problem problem = make_problem(options.tokens, options.nhead, options.hdim, options.max_seqlen);
  const Executor executor(problem);
  const MicroBatchLayout layout(problem);
  fmt::print("{}\n{} micro-batches, {:.1f} MB up and {:.1f} MB down for each, kernels on {} of {} cores\n",
             to_string(problem), options.micro_batches, static_cast<double>(layout.input_bytes()) * 1e-6,
             static_cast<double>(layout.output_bytes()) * 1e-6, executor.device().multiprocessors,
             std::thread::hardware_concurrency());
  const auto micro_batches = make_micro_batches(executor, layout, options.micro_batches, 1);

  // One warm-up of each, then both in turn. Every run must give the same bits as the first on one stream.
  Pipeline pipeline(executor, layout, micro_batches);
  pipeline.run(Schedule::one_stream);
  const auto expected = pipeline.gradients();
  pipeline.run(Schedule::overlapped);
  bool is_equal = pipeline.gradients() == expected;
  Measurement serial;
  Measurement overlapped;
  for (int round = 0; round < options.rounds; ++round) {
    serial.runs.push_back(pipeline.run(Schedule::one_stream));
    is_equal = is_equal && pipeline.gradients() == expected;
    overlapped.runs.push_back(pipeline.run(Schedule::overlapped));
    is_equal = is_equal && pipeline.gradients() == expected;
  }

  const RunResult& without = serial.median();
  const RunResult& with = overlapped.median();
  const double speedup = without.wall_ms / with.wall_ms;
  // Busy times grow where operations that run side by side slow each other down; the one-stream run's don't.
  const double work_ms = without.device_busy_ms;
  const auto print_row = [&](const char* name, const RunResult& run) {
    fmt::print("{:<13} {:>9.2f} {:>16.2f} {:>13.2f} {:>13.2f}\n", name, run.wall_ms, run.device_busy_ms,
               run.device_overlap(), work_ms / run.wall_ms);
  };
  fmt::print("                wall ms   device busy ms   busy / wall   work / wall\n");
  print_row("one stream", without);
  print_row("five streams", with);
  fmt::print("busy: uploads, backward passes and downloads added up; work: what they take on one stream\n");
  fmt::print("{:.2f} times as fast (medians of {} runs of each, in turn), gradients {}\n", speedup, options.rounds,
             is_equal ? "bitwise equal" : "DIFFER");

  const std::vector<TimelinePanel> panels = {
      make_panel(fmt::format("One stream: {:.1f} ms", without.wall_ms), without, Schedule::one_stream),
      make_panel(fmt::format("A stream for each stage: {:.1f} ms", with.wall_ms), with, Schedule::overlapped)};
  if (!options.trace.empty()) write_text_file(options.trace, to_chrome_trace(panels));
  if (!options.svg.empty()) {
    TimelineChart chart{.title = "Attention backward beside the copies"};
    chart.subtitle = fmt::format("{} micro-batches; events before and after each operation", options.micro_batches);
    chart.panels = panels;
    write_text_file(options.svg, to_svg(chart));
  }
  const nlohmann::json summary = {{"micro_batches", options.micro_batches},
                                  {"kernel_threads", executor.device().multiprocessors},
                                  {"one_stream", to_json(without, work_ms)},
                                  {"overlapped", to_json(with, work_ms)},
                                  {"speedup", speedup},
                                  {"bitwise_equal", is_equal}};
  fmt::print("{}\n", summary.dump());
  return is_equal ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace fmhax::sample

int main(int argc, char** argv) try {
  fmhax::sample::Options options;
  CLI::App app{"Backward of one micro-batch beside the upload of the next and the download of the previous gradients."};
  app.add_option("--tokens", options.tokens, "Tokens of a micro-batch")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  app.add_option("--nhead", options.nhead, "Heads")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--hdim", options.hdim, "Head dimension, a multiple of 8")
      ->check(CLI::Range(8, 256))
      ->capture_default_str();
  app.add_option("--max-seqlen", options.max_seqlen, "Longest sequence; the shortest has 16 tokens")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  app.add_option("--micro-batches", options.micro_batches, "Micro-batches of one run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Measured runs of each kind")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--kernel-threads", options.kernel_threads,
                 "CPU platform: cores for kernels; FMHAX_HOST_THREADS, where set, goes first")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--trace", options.trace, "Write a Chrome trace (JSON) to this file");
  app.add_option("--svg", options.svg, "Write the timeline as SVG to this file");
  CLI11_PARSE(app, argc, argv);

  // A GPU has copy engines beside its compute units. On the CPU platform kernels, copies and host functions are all
  // threads on the same cores, and kernels take every core by default; leaving one to the copies stands for the
  // engines. Both schedules get the same. Has to be set before the first HIP call.
  setenv("FMHAX_HOST_THREADS", std::to_string(options.kernel_threads).c_str(), 0);
  return fmhax::sample::run(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "overlap: %s\n", error.what());
  return EXIT_FAILURE;
}
