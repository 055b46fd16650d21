/// @file The whole check of one case: every way of running it, against fp64 and against each other.
#pragma once

#include <string>
#include <vector>

#include "fmhax/executor.hpp"
#include "verification/case.hpp"
#include "verification/compare.hpp"
#include "verification/device_problem.hpp"

namespace fmhax::verification {

struct ModeReport {
  RunMode mode = RunMode::eager;
  Comparison comparison;
};

struct CaseReport {
  std::string kernel;  ///< name of the kernel that ran
  std::vector<ModeReport> modes;
  std::string failure;  ///< the first thing that is wrong, in words; empty: none
  bool passed() const { return failure.empty(); }
};

/// A case with its inputs drawn and its fp64 results computed: the part that needs no device.
struct PreparedCase {
  Case source;
  AttentionInputs inputs;
  Expected expected;
};
PreparedCase prepare(const Case& c);

/// Runs the case in each of the modes `repeats` times, at least twice where it replays a graph. Each run must come
/// within tolerance, report status ok, write nothing that is not its own, and with a deterministic problem give the
/// same bits as every other run in any mode. An fmhax::Error becomes a failure.
CaseReport verify(const PreparedCase& prepared, const std::vector<RunMode>& modes, const ExecutorOptions& options = {},
                  int repeats = 1);

}  // namespace fmhax::verification
