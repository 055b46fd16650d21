#include <cstdint>
#include <random>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"
#include "fmhax/workspace.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

WorkspaceSpec bounded_spec(const Problem& problem, std::int64_t tile_rows) {
  WorkspaceSpec spec = spec_for(problem, true, tile_rows);
  spec.can_bound_splits = true;
  return spec;
}

std::int64_t size_with(WorkspaceSpec spec, const Problem& problem, std::int64_t max_splits) {
  spec.max_splits = max_splits;
  return workspace_size(spec, problem);
}

}  // namespace

TEST_CASE("under a ceiling there are as many splits as it allows, and not one more") {
  std::minstd_rand random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto below = [&random](std::uint32_t count) { return static_cast<std::int64_t>(random() % count); };
    Problem problem = batch_problem(1 + below(5), 2, 1 + below(300), 8);
    problem.max_seqlen_k = 1 + below(1000);
    if (round % 2 == 0) {
      problem.is_group_mode = true;
      problem.total_q = 1 + below(700);
      problem.total_k = 1 + below(2000);
    }
    const WorkspaceSpec spec = bounded_spec(problem, 1 + below(100));
    const std::int64_t least = least_workspace_size(spec, problem);
    const std::int64_t whole = workspace_size(spec, problem);
    CHECK(least == size_with(spec, problem, 1));
    CHECK(max_splits_within(spec, problem, whole) == 0);
    CHECK_THROWS_AS(max_splits_within(spec, problem, least - 1), Error);
    if (least == whole) continue;
    const std::int64_t ceiling = least + static_cast<std::int64_t>(random()) % (whole - least);
    const std::int64_t max_splits = max_splits_within(spec, problem, ceiling);
    REQUIRE(max_splits >= 1);
    CHECK(size_with(spec, problem, max_splits) <= ceiling);
    CHECK(size_with(spec, problem, max_splits + 1) > ceiling);
  }
}

TEST_CASE("a spec without bounded splits fits a ceiling as it is or not at all, and the error names the least size") {
  const Problem problem = batch_problem(2, 4, 512, 64);
  for (const WorkspaceSpec& spec : {spec_for(problem, true), persistent_spec(3), spec_for(problem, false)}) {
    const std::int64_t bytes = workspace_size(spec, problem);
    CHECK(least_workspace_size(spec, problem) == bytes);
    CHECK(max_splits_within(spec, problem, bytes) == 0);
    CHECK_THROWS_WITH_AS(max_splits_within(spec, problem, bytes - 1), doctest::Contains(std::to_string(bytes).c_str()),
                         Error);
  }
}
