#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "xml_check.hpp"

using namespace fmhax::sample;

namespace {

const std::string kProgram = FMHAX_OVERLAP_PROGRAM;

std::string take_file(const char* path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  std::remove(path);
  return content.str();
}

struct Span {
  double begin_us = 0;
  double end_us = 0;
};

std::vector<Span> spans_of(const nlohmann::json& trace, int process) {
  std::vector<Span> spans;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("pid") != process) continue;
    const double begin = event.at("ts").get<double>();
    CHECK(event.at("dur").get<double>() >= 0);
    spans.push_back({begin, begin + event.at("dur").get<double>()});
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.end_us < b.end_us; });
  return spans;
}

/// Time that two spans have in common, over all pairs.
double concurrent_us(const std::vector<Span>& spans) {
  double sum = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double end = std::min(spans[i].end_us, spans[j].end_us);
      sum += std::max(0.0, end - std::max(spans[i].begin_us, spans[j].begin_us));
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("overlap gives the same gradients with and without overlap, and files that can be read") {
  const ProgramRun run = run_program(
      kProgram + " --tokens 512 --micro-batches 6 --rounds 3 --trace overlap_test.json --svg overlap_test.svg");
  CHECK(run.exit_status == 0);
  REQUIRE_FALSE(run.lines.empty());

  const auto summary = nlohmann::json::parse(run.lines.back());
  CHECK(summary.at("bitwise_equal") == true);
  CHECK(summary.at("micro_batches") == 6);
  const auto& serial = summary.at("one_stream");
  const auto& overlapped = summary.at("overlapped");
  CHECK(serial.at("wall_ms").get<double>() > 0);
  CHECK(serial.at("device_busy_over_wall").get<double>() > 0.05);
  CHECK(serial.at("stages_busy_ms").get<double>() >= serial.at("device_busy_ms").get<double>());
  // One stream does one thing at a time: never more busy than the clock ran (events and clock may differ a little).
  CHECK(serial.at("stages_busy_ms").get<double>() <= serial.at("wall_ms").get<double>() * 1.02);
  CHECK(xml_fault(take_file("overlap_test.svg")) == "");
  // Whether overlapping pays depends on what else the machine does, whether it happens does not.
  const auto trace = nlohmann::json::parse(take_file("overlap_test.json"));
  const std::vector<Span> one_stream = spans_of(trace, 0);
  const std::vector<Span> five_streams = spans_of(trace, 1);
  CHECK(one_stream.size() == 6 * 5);  // micro-batches, stages
  CHECK(five_streams.size() == 6 * 5);
  CHECK(concurrent_us(one_stream) < 1e-3 * one_stream.back().end_us);
  CHECK(concurrent_us(five_streams) > 0.02 * five_streams.back().end_us);
  CHECK(overlapped.at("device_busy_ms").get<double>() > 0);
}

TEST_CASE("overlap refuses options that make no sense") {
  CHECK(run_program(kProgram + " --micro-batches 0 2>/dev/null").exit_status != 0);
  CHECK(run_program(kProgram + " --hdim 7 2>/dev/null").exit_status != 0);
  CHECK(run_program(kProgram + " --svg /nonexistent-folder/x.svg --tokens 64 --rounds 1 2>/dev/null").exit_status != 0);
}
