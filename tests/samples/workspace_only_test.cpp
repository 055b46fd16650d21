#include <array>
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "program.hpp"

TEST_CASE("workspace_only prints the layout that its lengths give by the documented formula") {
  const fmhax::sample::ProgramRun run = fmhax::sample::run_program(FMHAX_WORKSPACE_ONLY_PROGRAM);
  CHECK(run.exit_status == 0);
  REQUIRE(run.lines.size() == 19);

  // 16 heads, hdim_q 128, a split for each 64 keys.
  constexpr std::array<long, 5> kLengthsQ{2048, 512, 300, 1, 0};
  constexpr std::array<long, 5> kLengthsK{2048, 700, 300, 65, 10};
  long offset = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    const std::string& line = run.lines[3 + i];
    CAPTURE(line);
    std::array<long, 6> numbers{};
    REQUIRE(std::sscanf(line.c_str(), "%ld %ld %ld %ld %ld %ld", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                        &numbers[4], &numbers[5]) == 6);
    const long splits = (kLengthsK[i] + 63) / 64;
    const long elements = 16 * splits * kLengthsQ[i] * 128;
    CHECK(numbers == std::array{static_cast<long>(i), kLengthsQ[i], kLengthsK[i], splits, offset, elements * 4});
    offset += elements;
  }

  // int32[5] and int64[6], each rounded up to 16 bytes, then dq_acc.
  const auto check_part = [&](std::size_t line, long at, long bytes) {
    CAPTURE(run.lines[line]);
    long printed_at = -1;
    long printed_bytes = -1;
    REQUIRE(std::sscanf(run.lines[line].c_str(), "%ld %ld", &printed_at, &printed_bytes) == 2);
    CHECK(printed_at == at);
    CHECK(printed_bytes == bytes);
  };
  check_part(10, 0, 32);
  check_part(11, 32, 48);
  check_part(12, 80, offset * 4);

  const auto last_number = [&](std::size_t line) {
    return std::stol(run.lines[line].substr(run.lines[line].rfind(' ') + 1));
  };
  CHECK(last_number(14) == 80 + offset * 4);
  CHECK(last_number(15) >= last_number(14));
  CHECK(last_number(16) == 5L * 16 * 32 * 2048 * 128 * 4);
  CHECK(run.lines[18] ==
        "refused  sequence 1 of k ends before it starts: seqstart_k[2] = 2047 < 2048; nsplits[0] = -1");
}
