/// @file Bias, ALiBi, soft-cap, dropout, sink, their gradients and the gradient through LSE, against fp64.
#include "feature_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace fmhax::test {
namespace {

void add_bias(Case& c, bool expands_batch, bool expands_nhead) {
  c.problem.bias = BiasKind::elementwise;
  c.problem.has_dbias = true;
  c.features.bias_expands_batch = c.features.dbias_sums_batch = expands_batch;
  c.features.bias_expands_nhead = c.features.dbias_sums_nhead = expands_nhead;
}

void add_alibi(Case& c, AlibiForm form, bool per_sequence) {
  c.problem.bias = BiasKind::alibi;
  c.problem.alibi_form = form;
  c.features.alibi_per_sequence = per_sequence;
}

void add_dropout(Case& c, bool from_memory, bool stores) {
  c.problem.has_dropout = true;
  c.problem.stores_random_values = stores;
  c.features.dropout_probability = 0.3F;
  c.features.dropout_from_memory = from_memory;
}

void add_softcap(Case& c) {
  c.problem.has_softcap = true;
  c.features.softcap = 3.0F;
}

}  // namespace

const std::vector<Feature>& features() {
  static const std::vector<Feature> kFeatures{
      {"bias of its own for each sequence and head", [](Case& c) { add_bias(c, false, false); }},
      {"bias for all sequences", [](Case& c) { add_bias(c, true, false); }},
      {"bias for all heads", [](Case& c) { add_bias(c, false, true); }},
      {"bias for all", [](Case& c) { add_bias(c, true, true); }},
      {"bias for all heads, dbias of its own",
       [](Case& c) {
         add_bias(c, false, true);
         c.features.dbias_sums_nhead = false;
       }},
      {"bias without dbias",
       [](Case& c) {
         add_bias(c, false, false);
         c.problem.has_dbias = false;
       }},
      {"alibi", [](Case& c) { add_alibi(c, AlibiForm::distance_top_left, false); }},
      {"alibi bottom-right, slopes per sequence",
       [](Case& c) { add_alibi(c, AlibiForm::distance_bottom_right, true); }},
      {"alibi by column", [](Case& c) { add_alibi(c, AlibiForm::column, false); }},
      {"softcap", add_softcap},
      {"dropout", [](Case& c) { add_dropout(c, false, false); }},
      {"dropout from memory, stored", [](Case& c) { add_dropout(c, true, true); }},
      {"sink", [](Case& c) { c.problem.has_sink = true; }},
      {"dlse", [](Case& c) { c.problem.has_dlse = true; }},
  };
  return kFeatures;
}

void add_everything(Case& c, BiasKind bias) {
  if (bias == BiasKind::elementwise) add_bias(c, true, true);
  if (bias == BiasKind::alibi) add_alibi(c, AlibiForm::distance_bottom_right, true);
  add_softcap(c);
  add_dropout(c, true, true);
  c.problem.has_sink = c.problem.has_dlse = true;
}

std::vector<Case> cases_for_features() {
  std::vector<Case> cases{batch_case(2, 70, 41), batch_case(2, 65, 150, Mask::causal_bottom_right()),
                          group_case({30, 0, 81}, {50, 7, 33}, Mask::window(20, 3)),
                          group_case({5, 90, 0, 12}, {140, 64, 9, 0}, Mask::causal())};
  Case padded = group_case({40, 70}, {70, 133});
  padded.problem.logical_lengths = LogicalLengths::per_sequence;
  padded.lengths.q.logical = {33, 66};
  padded.lengths.k.logical = {0, 129};
  cases.push_back(padded);
  return cases;
}

}  // namespace fmhax::test

TEST_CASE("each feature alone has the right gradients with every kernel and type") {
  for (const test::Feature& feature : test::features()) {
    for (Case c : test::cases_for_features()) {
      INFO(feature.name);
      feature.add(c);
      test::check_everywhere(c);
    }
  }
}

TEST_CASE("all features at once have the right gradients with every kernel and type") {
  for (const BiasKind bias : {BiasKind::elementwise, BiasKind::alibi}) {
    for (Case c : test::cases_for_features()) {
      test::add_everything(c, bias);
      test::check_everywhere(c);
    }
  }
}

namespace {

/// Relative where the values are above 1.
double worst_difference(const DenseTensor& a, const DenseTensor& b, const std::vector<SequencePlace>& rows) {
  double worst = 0;
  for (const SequencePlace& place : rows) {
    for (std::int64_t s = place.start; s < place.start + place.length; ++s) {
      const double* x = a.row(place.batch_index, s, 0);
      const double* y = b.row(place.batch_index, s, 0);
      for (std::int64_t i = 0; i < a.nhead * a.hdim; ++i) {
        if (x[i] == y[i]) continue;  // infinities too
        const double difference = std::fabs(x[i] - y[i]) / std::max(1.0, std::fabs(y[i]));
        worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
      }
    }
  }
  return worst;
}

std::vector<SequencePlace> real_rows(const Case& c) {
  std::vector<SequencePlace> places;
  for (std::int64_t b = 0; b < c.problem.batch; ++b) {
    places.push_back(place_of(c.problem, c.lengths.q, c.problem.max_seqlen_q, b));
  }
  return places;
}

/// o, lse and random values of the forward pass.
void check_forward(const Case& c) {
  const PreparedCase prepared = prepare(c);
  for (const std::string& kernel : test::kernels_for(c.problem)) {
    INFO(to_string(c), "; kernel ", kernel);
    ExecutorOptions options;
    options.kernel = kernel;
    const Executor executor(c.problem, options);
    DeviceProblem device(c, prepared.inputs, prepared.expected.forward, executor);
    const ForwardRun run = device.run_forward();
    CHECK(run.violation.empty());
    const double tolerance =
        c.problem.dtype == DataType::fp32 ? 1e-5 : (c.problem.dtype == DataType::fp16 ? 4e-3 : 3e-2);
    CHECK(worst_difference(run.o, prepared.expected.forward.o, real_rows(c)) < tolerance);
    CHECK(worst_difference(run.lse, prepared.expected.forward.lse, real_rows(c)) < 1e-5);
    if (!c.problem.stores_random_values) continue;
    // The bytes are those of the documented formula, and those of the backward pass.
    const Gradients backward = device.run(RunMode::eager).front().gradients;
    bool all_equal = true;
    for (std::size_t i = 0; i < run.random_values.data.size(); ++i) {
      const double expected = prepared.expected.random_values.data[i];
      all_equal = all_equal && (expected < 0 ||
                                (run.random_values.data[i] == expected && backward.random_values.data[i] == expected));
    }
    CHECK(all_equal);
  }
}

}  // namespace

TEST_CASE("the forward pass has every feature, and draws the bytes that the backward pass draws") {
  for (const test::Feature& feature : test::features()) {
    for (Case c : test::cases_for_features()) {
      feature.add(c);
      for (const DataType dtype : test::dtypes_to_test()) {
        c.problem.dtype = dtype;
        test::fit_dtype(c);
        if (c.problem.dtype == dtype) check_forward(c);
      }
    }
  }
  for (Case c : test::cases_for_features()) {
    test::add_everything(c, BiasKind::elementwise);
    test::fit_dtype(c);
    check_forward(c);
  }
}

TEST_CASE("rows that see no key have o 0 and the sink as lse") {
  Case c = test::batch_case(1, 9, 4, Mask::causal_bottom_right());
  c.problem.has_sink = true;
  test::fit_dtype(c);
  const PreparedCase prepared = prepare(c);
  DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
  const ForwardRun run = device.run_forward();
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      CHECK(*run.lse.row(0, row, head) == prepared.inputs.features.sink[static_cast<std::size_t>(head)]);
      CHECK(*run.o.row(0, row, head) == 0.0);
    }
  }
}

TEST_CASE("a bias of minus infinity hides keys, even all of a row's") {
  for (const std::int64_t seqlen_k : {50, 200}) {
    Case c = test::batch_case(2, 70, seqlen_k);
    c.problem.bias = BiasKind::elementwise;
    c.problem.has_dbias = true;
    test::fit_dtype(c);
    PreparedCase prepared{c, draw_inputs(c), {}};
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j < seqlen_k; ++j) {
        prepared.inputs.features.bias.row(0, 3, h)[j] = -std::numeric_limits<double>::infinity();
        if (j % 3 == 0) prepared.inputs.features.bias.row(1, 5, h)[j] = -std::numeric_limits<double>::infinity();
      }
    }
    prepared.expected = expected_of(prepared.inputs);
    for (const std::string& kernel : test::kernels_for(c.problem)) {
      ExecutorOptions options;
      options.kernel = kernel;
      const CaseReport report = verify(prepared, {RunMode::eager}, options);
      CHECK_MESSAGE(report.passed(), kernel, ": ", report.failure);
    }
  }
}

TEST_CASE("deterministic calls with features give the same bits whoever runs beside them") {
  for (Case c : test::cases_for_features()) {
    c.problem.is_deterministic = true;
    test::add_everything(c, BiasKind::elementwise);
    test::fit_dtype(c);
    const PreparedCase prepared = prepare(c);
    for (const std::string& kernel : test::kernels_for(c.problem)) {
      ExecutorOptions options;
      options.kernel = kernel;
      const CaseReport report = verify(prepared, {RunMode::eager, RunMode::graph}, options, /*repeats=*/15);
      CHECK_MESSAGE(report.passed(), kernel, ": ", report.failure);
    }
  }
}

TEST_CASE("dbias and dsink are deterministic in calls that are not") {
  Case c = test::batch_case(3, 130, 300);
  test::add_everything(c, BiasKind::elementwise);
  test::fit_dtype(c);
  const PreparedCase prepared = prepare(c);
  DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
  const std::vector<RunResult> runs = device.run(RunMode::eager, 10);
  for (const RunResult& run : runs) {
    CHECK(run.gradients.dbias.data == runs.front().gradients.dbias.data);
    CHECK(run.gradients.dsink.data == runs.front().gradients.dsink.data);
  }
}
