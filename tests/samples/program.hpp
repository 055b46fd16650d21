/// @file Starts a program and reads what it prints.
#pragma once

#include <string>
#include <vector>

namespace fmhax::sample {

struct ProgramRun {
  int exit_status = -1;
  std::vector<std::string> lines;  ///< standard output
};

/// Runs a shell command to its end. Throws std::runtime_error when no process could be made.
ProgramRun run_program(const std::string& command);

}  // namespace fmhax::sample
