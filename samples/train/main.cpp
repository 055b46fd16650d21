/// Trains a byte-level transformer whose whole training step, attention backward included, is one replayed HIP graph.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "corpus.hpp"
#include "options.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "svg.hpp"
#include "trainer.hpp"

namespace {

using namespace fmhax::train;

void describe(const Options& options, const std::string& text, const std::vector<std::string_view>& documents) {
  std::size_t longest = 0;
  std::size_t shortest = text.size();
  for (const std::string_view document : documents) {
    longest = std::max(longest, document.size());
    shortest = std::min(shortest, document.size());
  }
  const TrainingConfig& config = options.config;
  fmt::print(stderr,
             "{} bytes of text in {} documents of {} to {} bytes\n{} layers, width {}, {} heads, {} parameters\n",
             text.size(), documents.size(), shortest, longest, config.model.layers, config.model.width,
             config.model.heads, ParameterLayout(config.model, config.batch.longest).count);
}

RunResult train(const Options& options, const std::vector<std::string_view>& documents, Mode mode) {
  TrainingStep step(options.config, documents);
  ProgressBar bar;
  return run(step, {.mode = mode,
                    .steps = options.config.optimizer.total_steps,
                    .gradient_checks = options.gradient_checks,
                    .on_progress = [&](const Progress& progress) { bar.show(progress); }});
}

int run_program(const Options& options) {
  const std::string text = read_text(options.text_files.empty() ? licence_texts() : options.text_files);
  const std::vector<std::string_view> documents = cut_documents(text, options.config.batch.longest);
  describe(options, text, documents);

  Runs runs;
  if (options.runs_graph) runs.graph = train(options, documents, Mode::graph);
  if (options.runs_eager) runs.eager = train(options, documents, Mode::eager);

  if (!options.svg_file.empty()) fmhax::sample::write_text_file(options.svg_file, loss_curve_svg(options, runs));
  if (!options.losses_file.empty()) write_losses(options.losses_file, runs);
  std::optional<double> loss_difference;
  if (!options.compare_file.empty()) loss_difference = largest_loss_difference(options.compare_file, runs);
  fmt::print("{}\n", json_line(options, runs, loss_difference));
  if (runs.graph && runs.eager && !have_equal_bits(*runs.graph, *runs.eager)) {
    fmt::print(stderr, "train: the run with the graph and the run without differ\n");
    return 1;
  }
  if (loss_difference && *loss_difference > options.tolerance) {
    fmt::print(stderr, "train: a loss is {:.3g} away from that in {}, more than {:.3g}\n", *loss_difference,
               options.compare_file, options.tolerance);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_program(parse_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 2;
  }
}
