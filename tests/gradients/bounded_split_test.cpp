/// @file Deterministic dQ under a ceiling for the workspace: several key tiles in each split.
#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

#include "fmhax/workspace.hpp"
#include "gradient_test.hpp"
#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

std::vector<Case> cases() {
  std::vector<Case> cases{test::batch_case(2, 150, 900), test::batch_case(3, 129, 400, Mask::causal()),
                          test::group_case({200, 1, 300, 0, 30}, {900, 130, 64, 7, 0}),
                          test::group_case({200, 1, 300, 0, 30}, {900, 130, 640, 7, 0}, Mask::window(50, 10))};
  for (Case& c : cases) c.problem.is_deterministic = true;
  return cases;
}

/// The least size that any kernel needs, and the size that each needs unasked.
std::vector<std::int64_t> ceilings_for(const Problem& problem) {
  const Executor unbounded(problem);
  std::int64_t least = unbounded.workspace_size();
  std::int64_t most = 0;
  for (const Candidate& candidate : unbounded.kernel_choice().candidates) {
    if (!candidate.unsupported_reason.empty()) continue;
    const WorkspaceSpec spec = candidate.entry.workspace_spec(problem, unbounded.device());
    least = std::min(least, least_workspace_size(spec, problem));
    most = std::max(most, workspace_size(spec, problem));
  }
  return {least, least + (most - least) / 3, least + (most - least) / 2, most};
}

}  // namespace

TEST_CASE("under a ceiling deterministic gradients are right, with the same bits in every mode") {
  int bounded = 0;
  bool can_be_bounded = false;
  for (Case c : cases()) {
    for (const DataType dtype : test::dtypes_to_test()) {
      c.problem.dtype = dtype;
      const PreparedCase prepared = prepare(c);
      for (const std::int64_t ceiling : ceilings_for(c.problem)) {
        ExecutorOptions options;
        options.max_workspace_bytes = ceiling;
        for (const MetadataPath path : {MetadataPath::host, MetadataPath::device}) {
          options.metadata_path = path;
          const Executor executor(c.problem, options);
          INFO(to_string(c), "; kernel ", executor.kernel_choice().entry().name, "; ceiling ", ceiling);
          CHECK(executor.workspace_size() <= ceiling);
          for (const Candidate& candidate : executor.kernel_choice().candidates) {
            if (!candidate.unsupported_reason.empty()) continue;
            const WorkspaceSpec spec = candidate.entry.workspace_spec(c.problem, executor.device());
            can_be_bounded = can_be_bounded || spec.can_bound_splits;
          }
          bounded += executor.workspace_spec().max_splits > 0 ? 1 : 0;
          CHECK(verify(prepared, test::all_modes(), options, 2).failure == "");
        }
      }
    }
  }
  CHECK((bounded > 0) == can_be_bounded);
}

TEST_CASE("a ceiling below the least possible workspace is refused with that size") {
  const Case c = cases().back();
  ExecutorOptions options;
  const std::int64_t least = ceilings_for(c.problem).front();
  options.max_workspace_bytes = least - 1;
  const std::string wanted = std::to_string(least) + " bytes";
  CHECK_THROWS_WITH_AS(Executor(c.problem, options), doctest::Contains(wanted.c_str()), Error);
  options.max_workspace_bytes = -1;
  CHECK_THROWS_WITH_AS(Executor(c.problem, options), doctest::Contains("max_workspace_bytes"), Error);
}
