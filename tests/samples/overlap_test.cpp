#include <cstdio>
#include <fstream>
#include <sstream>

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
  // Other load on the machine may eat the gain, so only that overlapping brings more work into a unit of time.
  CHECK(overlapped.at("device_busy_over_wall").get<double>() > 0.9 * serial.at("device_busy_over_wall").get<double>());

  CHECK(xml_fault(take_file("overlap_test.svg")) == "");
  const auto trace = nlohmann::json::parse(take_file("overlap_test.json"));
  std::size_t spans = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++spans;
    CHECK(event.at("dur").get<double>() >= 0);
  }
  CHECK(spans == 2 * 6 * 5);  // two schedules, six micro-batches, five stages
}

TEST_CASE("overlap refuses options that make no sense") {
  CHECK(run_program(kProgram + " --micro-batches 0 2>/dev/null").exit_status != 0);
  CHECK(run_program(kProgram + " --hdim 7 2>/dev/null").exit_status != 0);
  CHECK(run_program(kProgram + " --svg /nonexistent-folder/x.svg --tokens 64 --rounds 1 2>/dev/null").exit_status != 0);
}
