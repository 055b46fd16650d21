/// @file The command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training_step.hpp"

namespace fmhax::train {

struct Options {
  TrainingConfig config;
  std::vector<std::string> text_files;  ///< empty: the licence texts
  bool runs_graph = true;
  bool runs_eager = true;
  std::int64_t gradient_checks = 4;
  std::string svg_file;      ///< empty: none
  std::string losses_file;   ///< where the losses are written to; empty: nowhere
  std::string compare_file;  ///< losses of another run; empty: none
  double tolerance = 0.01;   ///< the most that a loss may differ from that run's, relative; for bf16 0.04
};

/// first_loss and last_loss are means over this many steps at either end, or over a quarter of a shorter run.
inline constexpr std::int64_t kLossWindow = 10;

/// Ends the process, with a message, for --help and for values that are not allowed.
Options parse_options(int argc, char** argv);

}  // namespace fmhax::train
