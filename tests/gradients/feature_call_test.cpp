/// @file Features over several calls: replays that draw anew, split keys, and calls that are refused on the way.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include "feature_test.hpp"
#include "fmhax/graph.hpp"
#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

TEST_CASE("replays of one graph draw with the seed and offset that they find in device memory") {
  for (const std::int64_t seqlen_k : {60, 200}) {
    Case c = test::batch_case(2, 70, seqlen_k);
    c.problem.has_dropout = c.problem.stores_random_values = true;
    c.features.dropout_probability = 0.4F;
    c.features.dropout_from_memory = true;
    test::fit_dtype(c);
    PreparedCase prepared = prepare(c);
    DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
    const OwnedStream stream;
    Graph graph(Executor(c.problem), device.arguments());
    DenseTensor last;
    for (const auto& [seed, offset] : {std::pair<std::uint64_t, std::uint64_t>{1, 0},
                                       {1, 4},
                                       {1, (std::uint64_t{1} << 32) + 4},
                                       {std::uint64_t{7} << 40, 4}}) {
      // A training step in small: another draw, its forward, then the same graph.
      prepared.inputs.features.dropout.seed = seed;
      prepared.inputs.features.dropout.offset = offset;
      prepared.expected = expected_of(prepared.inputs);
      device.load(c, prepared.inputs, prepared.expected.forward);
      device.poison_outputs();
      graph.launch(stream.get());
      stream.synchronize();
      const Gradients gradients = device.download_gradients();
      const Comparison comparison = compare(c, gradients, prepared.expected);
      CHECK_MESSAGE(comparison.passed(), comparison.failure());
      CHECK(gradients.random_values.data != last.data);
      last = gradients.random_values;
    }
  }
}

namespace {

/// The keys [begin, end) of every sequence, with everything else as it is.
AttentionInputs keys_of(const AttentionInputs& in, std::int64_t begin, std::int64_t end) {
  AttentionInputs part = in;
  part.problem.max_seqlen_k = end - begin;
  const auto slice = [&](const DenseTensor& from) {
    DenseTensor to(from.batch, end - begin, from.nhead, from.hdim);
    for (std::int64_t b = 0; b < from.batch; ++b) {
      std::copy(from.row(b, begin, 0), from.row(b, begin, 0) + to.seqlen * to.nhead * to.hdim, to.row(b, 0, 0));
    }
    return to;
  };
  part.k = slice(in.k);
  part.v = slice(in.v);
  return part;
}

/// One rank of a ring: its own keys, forward and backward on the device.
struct Rank {
  Rank(const Case& whole, const AttentionInputs& in, std::int64_t key_begin, std::int64_t key_end)
      : begin(key_begin), end(key_end), c(whole), inputs(keys_of(in, key_begin, key_end)) {
    c.problem.max_seqlen_k = end - begin;
    c.problem.has_dlse = inputs.problem.has_dlse = true;
    inputs.features.dlse = DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, 1);
    const ForwardResult placeholder = reference_forward(inputs);
    DeviceProblem device(c, inputs, placeholder, Executor(c.problem));
    ForwardRun run = device.run_forward();
    forward = {std::move(run.o), std::move(run.lse)};
  }

  Gradients backward() const {
    DeviceProblem device(c, inputs, forward, Executor(c.problem));
    return device.run(RunMode::eager).front().gradients;
  }

  std::int64_t begin;
  std::int64_t end;
  Case c;
  AttentionInputs inputs;
  ForwardResult forward{};
};

/// What a rank's own o and lse get of the whole loss, when o is the ranks' merged one.
void set_incoming_gradients(Rank& rank, const DenseTensor& dout, const ForwardResult& merged) {
  for (std::int64_t b = 0; b < dout.batch; ++b) {
    for (std::int64_t s = 0; s < dout.seqlen; ++s) {
      for (std::int64_t h = 0; h < dout.nhead; ++h) {
        const double weight = std::exp(*rank.forward.lse.row(b, s, h) - *merged.lse.row(b, s, h));
        double dlse = 0;
        for (std::int64_t i = 0; i < dout.hdim; ++i) {
          rank.inputs.dout.row(b, s, h)[i] = weight * dout.row(b, s, h)[i];
          dlse += dout.row(b, s, h)[i] * (rank.forward.o.row(b, s, h)[i] - merged.o.row(b, s, h)[i]);
        }
        *rank.inputs.features.dlse.row(b, s, h) = weight * dlse;
      }
    }
  }
}

ForwardResult merge(const Rank& a, const Rank& b) {
  ForwardResult merged = a.forward;
  for (std::size_t row = 0; row < merged.lse.data.size(); ++row) {
    const double lse_a = a.forward.lse.data[row];
    const double lse_b = b.forward.lse.data[row];
    const double lse = std::max(lse_a, lse_b) + std::log1p(std::exp(-std::fabs(lse_a - lse_b)));
    merged.lse.data[row] = lse;
    const auto hdim = static_cast<std::size_t>(merged.o.hdim);
    for (std::size_t i = row * hdim; i < (row + 1) * hdim; ++i) {
      merged.o.data[i] = std::exp(lse_a - lse) * a.forward.o.data[i] + std::exp(lse_b - lse) * b.forward.o.data[i];
    }
  }
  return merged;
}

}  // namespace

TEST_CASE("keys split between two ranks, merged through lse and dlse, give the gradients of the whole") {
  for (const std::int64_t seqlen_k : {90, 310}) {
    Case c = test::batch_case(2, 75, seqlen_k);
    c.problem.has_dlse = true;
    test::fit_dtype(c);
    c.problem.has_dlse = false;
    const AttentionInputs in = draw_inputs(c);
    Rank a(c, in, 0, seqlen_k / 3);
    Rank b(c, in, seqlen_k / 3, seqlen_k);
    const ForwardResult merged = merge(a, b);
    set_incoming_gradients(a, in.dout, merged);
    set_incoming_gradients(b, in.dout, merged);

    const BackwardResult whole = reference_backward(in, reference_forward(in));
    Gradients sum = whole.gradients;
    std::fill(sum.dq.data.begin(), sum.dq.data.end(), 0.0);
    for (const Rank* rank : {&a, &b}) {
      const Gradients part = rank->backward();
      for (std::size_t i = 0; i < sum.dq.data.size(); ++i) sum.dq.data[i] += part.dq.data[i];
      for (std::int64_t n = 0; n < c.problem.batch; ++n) {
        for (const auto& [to, from] : {std::pair{&sum.dk, &part.dk}, {&sum.dv, &part.dv}}) {
          const std::int64_t row = from->nhead * from->hdim;
          std::copy(from->row(n, 0, 0), from->row(n, 0, 0) + from->seqlen * row, to->row(n, rank->begin, 0));
        }
      }
    }
    const double tolerance = tolerance_for(c.problem, 0.0);
    CHECK(relative_error(sum.dq, whole.gradients.dq, whole.dq_terms) < tolerance);
    CHECK(relative_error(sum.dk, whole.gradients.dk, whole.dk_terms) < tolerance);
    CHECK(relative_error(sum.dv, whole.gradients.dv, whole.dv_terms) < tolerance);
  }
}

TEST_CASE("dbias and dsink of a call that is refused on the way are NaN") {
  for (const std::int32_t longest : {90, 190}) {
    Case c = test::group_case({30, 44}, {60, longest});
    test::add_everything(c, BiasKind::elementwise);
    test::fit_dtype(c);
    const PreparedCase prepared = prepare(c);
    DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
    const std::vector<std::int32_t> bad{0, 31, 30};  // decreasing
    GuardedBuffer starts(bad.size() * sizeof(std::int32_t));
    std::vector<std::byte> bytes(starts.bytes());
    std::memcpy(bytes.data(), bad.data(), bytes.size());
    starts.upload(bytes);
    device.arguments().lengths.seqstart_q = static_cast<const std::int32_t*>(starts.data());
    for (const RunMode mode : {RunMode::eager, RunMode::graph}) {
      const RunResult run = device.run(mode).front();
      CHECK(run.status.code == StatusCode::decreasing);
      CHECK(run.violation.empty());
      const auto is_nan = [](double x) { return std::isnan(x); };
      CHECK(std::all_of(run.gradients.dbias.data.begin(), run.gradients.dbias.data.end(), is_nan));
      CHECK(std::all_of(run.gradients.dsink.data.begin(), run.gradients.dsink.data.end(), is_nan));
      CHECK(std::all_of(run.gradients.dq.data.begin(), run.gradients.dq.data.end(), is_nan));
    }
  }
}
