/// @file Many random problems, on many threads.
#pragma once

#include <cstdint>

#include "fmhax/executor.hpp"
#include "verify_summary.hpp"

namespace fmhax::tool {

struct RandomRun {
  std::uint64_t seed = 7;
  std::uint64_t first = 0;  ///< index of the first problem
  std::uint64_t count = 0;
  double work = 1e8;  ///< the most that a problem has, in the measure of random_problem
  int jobs = 0;       ///< problems in work at a time; 0: one for each core
  int repeats = 1;    ///< runs of each kind
  ExecutorOptions options{};
  bool shows_progress = false;
};

/// Problem `index` of the list. Where no kernel of the device takes its element type or head dimensions it has some
/// that are taken.
verification::Case random_case(std::uint64_t seed, std::uint64_t index, double work);

/// Each job draws a problem, computes it in fp64 and runs it on streams of its own, so that references are computed on
/// all cores while the device works for others. The summary does not depend on `jobs`.
void verify_random(const RandomRun& run, VerifySummary& summary);

}  // namespace fmhax::tool
