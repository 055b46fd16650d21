#include "report.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "svg.hpp"

namespace fmhax::train {
namespace {

using Json = nlohmann::ordered_json;

const RunResult& main_run(const Runs& runs) { return runs.graph ? *runs.graph : *runs.eager; }

std::ptrdiff_t loss_window(const RunResult& run) {
  return static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(run.records.size() / 4, 1, kLossWindow));
}

template <class Iterator>
double mean_loss(Iterator begin, Iterator end) {
  double sum = 0;
  for (auto it = begin; it != end; ++it) sum += static_cast<double>(it->loss);
  return sum / static_cast<double>(end - begin);
}

std::vector<double> losses(const RunResult& run) {
  std::vector<double> values;
  for (const StepRecord& record : run.records) values.push_back(static_cast<double>(record.loss));
  return values;
}

std::vector<double> step_numbers(const RunResult& run) {
  std::vector<double> values;
  for (const StepRecord& record : run.records) values.push_back(static_cast<double>(record.step));
  return values;
}

}  // namespace

bool have_equal_bits(const RunResult& a, const RunResult& b) {
  const auto same_loss = [](const StepRecord& x, const StepRecord& y) {
    return std::bit_cast<std::uint32_t>(x.loss) == std::bit_cast<std::uint32_t>(y.loss);
  };
  return std::equal(a.records.begin(), a.records.end(), b.records.begin(), b.records.end(), same_loss) &&
         a.parameters.size() == b.parameters.size() &&
         std::memcmp(a.parameters.data(), b.parameters.data(), a.parameters.size() * sizeof(float)) == 0;
}

void write_losses(const std::string& file, const Runs& runs) {
  std::string lines;
  for (const StepRecord& record : main_run(runs).records) lines += fmt::format("{:.9g}\n", record.loss);
  sample::write_text_file(file, lines);
}

double largest_loss_difference(const std::string& file, const Runs& runs) {
  std::ifstream in(file);
  const std::vector<double> others{std::istream_iterator<double>(in), {}};
  const std::vector<StepRecord>& records = main_run(runs).records;
  if (others.size() != records.size()) {
    throw std::runtime_error(
        fmt::format("{} holds {} losses, this run has {} steps", file, others.size(), records.size()));
  }
  double largest = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const double difference = std::abs(static_cast<double>(records[i].loss) - others[i]) / others[i];
    // A loss that is not a number is as far away as can be.
    largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
  }
  return largest;
}

std::string json_line(const Options& options, const Runs& runs, std::optional<double> loss_difference) {
  const RunResult& run = main_run(runs);
  const std::ptrdiff_t window = loss_window(run);
  const auto only_if = [](const auto& condition, auto value) { return condition ? Json(value()) : Json(nullptr); };
  Json line;
  line["first_loss"] = mean_loss(run.records.begin(), run.records.begin() + window);
  line["last_loss"] = mean_loss(run.records.end() - window, run.records.end());
  line["steps"] = run.records.size();
  line["graph_builds"] = only_if(runs.graph, [&] { return runs.graph->graph_builds; });
  line["replays"] = only_if(runs.graph, [&] { return runs.graph->replays; });
  line["graph_nodes"] = only_if(runs.graph, [&] { return runs.graph->graph_nodes; });
  line["distinct_batches"] = run.distinct_batches;
  line["host_us_per_step_graph"] = only_if(runs.graph, [&] { return runs.graph->host_us_per_step; });
  line["host_us_per_step_eager"] = only_if(runs.eager, [&] { return runs.eager->host_us_per_step; });
  line["tokens_per_second"] = run.tokens_per_second;
  line["losses_equal"] = only_if(runs.graph && runs.eager, [&] { return have_equal_bits(*runs.graph, *runs.eager); });
  line["max_grad_error"] = only_if(options.gradient_checks > 0, [&] { return run.max_error.gradient; });
  line["max_output_error"] = only_if(options.gradient_checks > 0, [&] { return run.max_error.output; });
  line["max_loss_difference"] = only_if(loss_difference, [&] { return *loss_difference; });
  return line.dump();
}

std::string loss_curve_svg(const Options& options, const Runs& runs) {
  const RunResult& run = main_run(runs);
  const ModelShape& model = options.config.model;
  sample::LineChart chart;
  chart.title = "Training loss, attention backward by fmhax";
  chart.subtitle =
      fmt::format("{} layers, width {}, {} heads; {} distinct batches of up to {} tokens in {} steps", model.layers,
                  model.width, model.heads, run.distinct_batches, options.config.batch.tokens, run.records.size());
  chart.x_label = "step";
  chart.y_label = "cross-entropy, nats per byte";
  const auto add = [&](const RunResult& result, const char* name, const char* colour) {
    chart.series.push_back({"", step_numbers(result), losses(result), colour, true});
    chart.series.push_back(
        {name, step_numbers(result), sample::moving_average(losses(result), kLossWindow), colour, false});
  };
  if (runs.eager) add(*runs.eager, "enqueued in every step", "#e8590c");
  if (runs.graph) add(*runs.graph, "one graph, replayed", "#2563eb");
  return sample::to_svg(chart);
}

}  // namespace fmhax::train
