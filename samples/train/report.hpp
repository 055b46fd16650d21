/// @file What a finished training prints and draws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "trainer.hpp"

namespace fmhax::train {

/// The runs that took place; at least one.
struct Runs {
  std::optional<RunResult> graph;
  std::optional<RunResult> eager;
};

/// True when the losses of all steps and the final parameters have the same bits.
bool have_equal_bits(const RunResult& a, const RunResult& b);

/// Writes the loss of every step, one a line. Throws std::runtime_error.
void write_losses(const std::string& file, const Runs& runs);
/// The largest |loss - other| / other over the steps, where `file` holds the others. Throws std::runtime_error when it
/// holds another number of steps.
double largest_loss_difference(const std::string& file, const Runs& runs);

/// The JSON line, without a line break.
std::string json_line(const Options& options, const Runs& runs, std::optional<double> loss_difference);

/// The loss of every step as an SVG document.
std::string loss_curve_svg(const Options& options, const Runs& runs);

}  // namespace fmhax::train
