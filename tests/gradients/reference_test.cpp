/// @file Who checks the checker: the fp64 reference against finite differences of the forward, the
/// conversions against their formats, and the comparison against results that are wrong on purpose.
#include "verification/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "gradient_test.hpp"
#include "verification/compare.hpp"
#include "verification/half.hpp"
#include "verification/random.hpp"
#include "verification/random_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

/// A scalar loss whose gradient with respect to o is dout, and with respect to lse dlse where there is one.
double loss(const AttentionInputs& in) {
  const ForwardResult forward = reference_forward(in);
  double sum = 0;
  for (std::size_t i = 0; i < forward.o.data.size(); ++i) sum += forward.o.data[i] * in.dout.data[i];
  const DenseTensor& dlse = in.features.dlse;
  for (std::size_t i = 0; i < dlse.data.size(); ++i) {
    if (std::isfinite(forward.lse.data[i])) sum += forward.lse.data[i] * dlse.data[i];
  }
  return sum;
}

/// Compares entries of a gradient, spread over the tensor, with central differences of the loss.
void check_differences(const AttentionInputs& inputs, std::vector<double>& (*input)(AttentionInputs&),
                       const DenseTensor& gradient) {
  AttentionInputs in = inputs;
  constexpr double kStep = 1e-5;
  std::vector<double>& values = input(in);
  REQUIRE(values.size() == gradient.data.size());
  const std::size_t stride = std::max<std::size_t>(values.size() / 97, 1);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double value = values[i];
    values[i] = value + kStep;
    const double above = loss(in);
    values[i] = value - kStep;
    const double below = loss(in);
    values[i] = value;
    const double difference = (above - below) / (2 * kStep);
    CHECK(std::fabs(difference - gradient.data[i]) < 1e-7 * std::max(1.0, std::fabs(difference)));
  }
}

void check_against_differences(const Case& c) {
  INFO(to_string(c));
  const AttentionInputs in = draw_inputs(c);
  const BackwardResult backward = reference_backward(in, reference_forward(in));
  const Gradients& g = backward.gradients;
  check_differences(
      in, [](AttentionInputs & x) -> auto& { return x.q.data; }, g.dq);
  check_differences(
      in, [](AttentionInputs & x) -> auto& { return x.k.data; }, g.dk);
  check_differences(
      in, [](AttentionInputs & x) -> auto& { return x.v.data; }, g.dv);
  if (c.problem.has_dbias)
    check_differences(
        in, [](AttentionInputs & x) -> auto& { return x.features.bias.data; }, g.dbias);
  if (c.problem.has_sink)
    check_differences(
        in, [](AttentionInputs & x) -> auto& { return x.features.sink; }, g.dsink);
}

/// A small case with its expected results.
struct Example {
  Case c = test::group_case({5, 9}, {7, 6}, Mask::causal());
  Expected expected = expected_of(draw_inputs(c));
};

}  // namespace

TEST_CASE("the reference's gradients are the finite differences of its forward") {
  for (const Mask& mask : {Mask::none(), Mask::causal(), Mask::causal_bottom_right(), Mask::window(2, 1),
                           Mask::window(-1, 3), Mask::window(3, -1, MaskAlignment::bottom_right), Mask::window(0, 0)}) {
    check_against_differences(test::batch_case(2, 7, 5, mask));
    check_against_differences(test::batch_case(1, 4, 9, mask));
    check_against_differences(test::group_case({3, 0, 6}, {5, 4, 2}, mask));
  }
}

TEST_CASE("the reference's gradients with padding are the finite differences of its forward") {
  Case c = test::group_case({6, 4}, {5, 7}, Mask::causal_bottom_right());
  c.problem.logical_lengths = LogicalLengths::per_sequence;
  c.lengths.q.logical = {4, 4};
  c.lengths.k.logical = {5, 3};
  check_against_differences(c);
}

TEST_CASE("the reference's gradients with features are the finite differences of its forward") {
  using Feature = void (*)(Case&);
  const std::vector<std::pair<const char*, Feature>> features{
      {"softcap",
       [](Case& c) {
         c.problem.has_softcap = true;
         c.features.softcap = 1.5F;
       }},
      {"bias for each head",
       [](Case& c) {
         c.problem.bias = BiasKind::elementwise;
         c.problem.has_dbias = true;
       }},
      {"bias for all",
       [](Case& c) {
         c.problem.bias = BiasKind::elementwise;
         c.problem.has_dbias = true;
         c.features.bias_expands_batch = c.features.dbias_sums_batch = true;
         c.features.bias_expands_nhead = c.features.dbias_sums_nhead = true;
       }},
      {"alibi", [](Case& c) { c.problem.bias = BiasKind::alibi; }},
      {"alibi bottom-right",
       [](Case& c) {
         c.problem.bias = BiasKind::alibi;
         c.problem.alibi_form = AlibiForm::distance_bottom_right;
         c.features.alibi_per_sequence = true;
       }},
      {"alibi column",
       [](Case& c) {
         c.problem.bias = BiasKind::alibi;
         c.problem.alibi_form = AlibiForm::column;
       }},
      {"dropout",
       [](Case& c) {
         c.problem.has_dropout = true;
         c.features.dropout_probability = 0.4F;
       }},
      {"sink", [](Case& c) { c.problem.has_sink = true; }},
      {"dlse", [](Case& c) { c.problem.has_dlse = true; }},
  };
  const auto check_with = [&](auto applies) {
    for (Case c : {test::batch_case(2, 6, 5, Mask::causal_bottom_right()), test::group_case({3, 0, 6}, {5, 4, 2})}) {
      for (std::size_t i = 0; i < features.size(); ++i) {
        if (applies(i)) features[i].second(c);
      }
      check_against_differences(c);
    }
  };
  for (std::size_t only = 0; only < features.size(); ++only) {
    INFO("feature ", features[only].first);
    check_with([only](std::size_t i) { return i == only; });
  }
  const auto all_but_bias = [](std::size_t i) { return i == 0 || i >= 6; };
  for (std::size_t bias = 1; bias < 6; ++bias) {
    INFO("everything at once, with ", features[bias].first);
    check_with([&](std::size_t i) { return i == bias || all_but_bias(i); });
  }
}

TEST_CASE("what is added to the reference's logits is what the contract says") {
  // One query head, no scores at all: S is the addend alone.
  const auto logits = [](Case c) {
    c.problem.nhead_q = 1;
    AttentionInputs in = draw_inputs(c);
    std::fill(in.q.data.begin(), in.q.data.end(), 0.0);
    in.features.alibi_slopes.assign(1, 0.5);
    return reference_forward(in).lse.data;
  };
  const auto expected = [](auto addend, std::int64_t rows, std::int64_t keys) {
    std::vector<double> lse;
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) sum += std::exp(0.5 * static_cast<double>(addend(i, j)));
      lse.push_back(std::log(sum));
    }
    return lse;
  };
  Case c = test::batch_case(1, 3, 5);
  c.problem.bias = BiasKind::alibi;
  const auto check = [&](auto addend) {
    const std::vector<double> found = logits(c);
    const std::vector<double> wanted = expected(addend, 3, 5);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]));
  };
  check([](std::int64_t i, std::int64_t j) { return -std::abs(i - j); });
  c.problem.alibi_form = AlibiForm::distance_bottom_right;
  check([](std::int64_t i, std::int64_t j) { return -std::abs(i + 2 - j); });
  c.problem.alibi_form = AlibiForm::column;
  check([](std::int64_t, std::int64_t j) { return j; });
}

TEST_CASE("rows that see no key have the sink as lse, and their dlse is the sink's") {
  Case c = test::batch_case(1, 5, 2, Mask::causal_bottom_right());
  c.problem.has_sink = true;
  const AttentionInputs in = draw_inputs(c);
  const ForwardResult forward = reference_forward(in);
  CHECK(*forward.lse.row(0, 1, 0) == in.features.sink[0]);
  CHECK(*forward.o.row(0, 1, 0) == 0.0);
}

TEST_CASE("the reference's window is the one that the mask's definition gives") {
  // j >= i + offset - left and j <= i + offset + right, both inclusive, counted by hand.
  const auto pairs = [](Mask mask, std::int64_t seqlen_q, std::int64_t seqlen_k) {
    const Case c = test::batch_case(1, seqlen_q, seqlen_k, mask);
    return visible_pairs(c.problem, c.lengths) / c.problem.nhead_q;
  };
  CHECK(pairs(Mask::none(), 4, 3) == 12);
  CHECK(pairs(Mask::causal(), 4, 3) == 1 + 2 + 3 + 3);
  CHECK(pairs(Mask::causal_bottom_right(), 4, 3) == 0 + 1 + 2 + 3);
  CHECK(pairs(Mask::causal_bottom_right(), 3, 4) == 2 + 3 + 4);
  CHECK(pairs(Mask::window(1, 0), 4, 4) == 1 + 2 + 2 + 2);
  CHECK(pairs(Mask::window(0, 0), 4, 4) == 4);
  CHECK(pairs(Mask::window(0, -1), 3, 3) == 3 + 2 + 1);
  CHECK(pairs(Mask::window(1, 1, MaskAlignment::bottom_right), 2, 5) == 3 + 2);
}

TEST_CASE("rows that see no key have o 0, lse -infinity and no gradient") {
  const AttentionInputs in = draw_inputs(test::batch_case(1, 5, 2, Mask::causal_bottom_right()));
  const ForwardResult forward = reference_forward(in);
  const BackwardResult backward = reference_backward(in, forward);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(std::isinf(*forward.lse.row(0, i, 0)) == (i < 3));
    CHECK(static_cast<bool>(backward.query_is_active[static_cast<std::size_t>(i)]) == (i >= 3));
    // Row 3 sees a single key, whose P is 1 and whose dS is 0 therefore.
    CHECK((*backward.gradients.dq.row(0, i, 1) == 0.0) == (i < 4));
  }
}

TEST_CASE("every 16-bit value survives the way through double") {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const double fp16 = from_fp16_bits(b);
    const double bf16 = from_bf16_bits(b);
    CHECK((std::isnan(fp16) || to_fp16_bits(fp16) == b));
    CHECK((std::isnan(bf16) || to_bf16_bits(bf16) == b));
  }
}

TEST_CASE("conversions to 16 bit round to nearest even, overflow to infinity and keep subnormals") {
  CHECK(from_fp16_bits(0x3C00) == 1.0);
  CHECK(from_fp16_bits(0x7BFF) == 65504.0);
  CHECK(from_fp16_bits(0x0001) == std::ldexp(1.0, -24));
  CHECK(from_bf16_bits(0x3F80) == 1.0);
  CHECK(from_bf16_bits(0x0001) == std::ldexp(1.0, -133));
  CHECK(to_fp16_bits(1.0 + std::ldexp(1.0, -11)) == 0x3C00);      // a tie, to even
  CHECK(to_fp16_bits(1.0 + 3 * std::ldexp(1.0, -11)) == 0x3C02);  // a tie, to even
  CHECK(to_fp16_bits(1.0 + 1.01 * std::ldexp(1.0, -11)) == 0x3C01);
  CHECK(to_fp16_bits(65519.0) == 0x7BFF);
  CHECK(to_fp16_bits(65520.0) == 0x7C00);
  CHECK(to_fp16_bits(-1e9) == 0xFC00);
  CHECK(to_fp16_bits(std::ldexp(1.0, -25)) == 0x0000);
  CHECK(to_fp16_bits(1.5 * std::ldexp(1.0, -25)) == 0x0001);
  CHECK(to_bf16_bits(1.0 + std::ldexp(1.0, -8)) == 0x3F80);
  CHECK(to_bf16_bits(1.0 + 3 * std::ldexp(1.0, -8)) == 0x3F82);
  CHECK(to_bf16_bits(1e39) == 0x7F80);
  CHECK(std::isnan(from_bf16_bits(to_bf16_bits(std::numeric_limits<double>::quiet_NaN()))));
}

TEST_CASE("the comparison accepts the reference itself") {
  const Example e;
  CHECK(compare(e.c, e.expected.backward.gradients, e.expected).passed());
}

TEST_CASE("the comparison refuses a NaN, a small error and a nonzero in rows that take no part") {
  const Example e;
  Gradients wrong = e.expected.backward.gradients;
  wrong.dk.data[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(compare(e.c, wrong, e.expected).failure().find("dk: nan") == 0);

  wrong = e.expected.backward.gradients;
  for (double& x : wrong.dv.data) x *= 1.0 + 2e-5;
  CHECK(compare(e.c, wrong, e.expected).failure().find("dv: error 2e-05") == 0);

  wrong = e.expected.backward.gradients;
  // Key row 5 of sequence 0 is beyond the last of its 5 query rows: nothing sees it.
  *wrong.dk.row(0, 5, 0) = 1e-30;
  CHECK(compare(e.c, wrong, e.expected).failure().find("dk: 1e-30 instead of 0") == 0);
}

TEST_CASE("the comparison refuses wrong dbias, dsink and random values") {
  Example e;
  e.c.problem.bias = BiasKind::elementwise;
  e.c.problem.has_dbias = e.c.problem.has_sink = e.c.problem.has_dropout = e.c.problem.stores_random_values = true;
  e.expected = expected_of(draw_inputs(e.c));
  Gradients right = e.expected.backward.gradients;
  right.random_values = e.expected.random_values;
  CHECK(compare(e.c, right, e.expected).passed());
  Gradients wrong = right;
  // Row 0 sees key 0 alone.
  wrong.dbias.row(0, 0, 1)[1] = 1e-30;
  CHECK(compare(e.c, wrong, e.expected).failure().find("dbias: 1e-30 instead of 0") == 0);
  wrong = right;
  for (double& x : wrong.dbias.data) x *= 1.0 + 2e-5;
  CHECK(compare(e.c, wrong, e.expected).failure().find("dbias: error 2e-05") == 0);
  wrong = right;
  for (double& x : wrong.dsink.data) x *= 1.0 + 2e-5;
  CHECK(compare(e.c, wrong, e.expected).failure().find("dsink: error") == 0);
  wrong = right;
  double& byte = wrong.random_values.row(0, 2, 1)[4];
  byte = byte > 0 ? byte - 1 : 1;
  CHECK(compare(e.c, wrong, e.expected).failure().find("random_values:") == 0);
}

TEST_CASE("the comparison refuses a 16-bit result that is twice as wrong as it need be") {
  Example e;
  e.c = test::batch_case(1, 200, 200);
  e.c.problem.dtype = DataType::bf16;
  e.expected = expected_of(draw_inputs(e.c));
  CHECK(compare(e.c, e.expected.rounded, e.expected).passed());
  Gradients wrong = e.expected.rounded;
  for (double& x : wrong.dq.data) x *= 1.0 + 8e-3;
  CHECK(compare(e.c, wrong, e.expected).failure().find("more than twice") != std::string::npos);
}

TEST_CASE("-0 and +0 are different bits") {
  Example e;
  Gradients other = e.expected.backward.gradients;
  CHECK(same_bits(other, e.expected.backward.gradients));
  *other.dk.row(0, 5, 0) = -0.0;
  CHECK_FALSE(same_bits(other, e.expected.backward.gradients));
}

TEST_CASE("random problems are the same for the same seed and cover what they promise") {
  CHECK(to_string(random_problem(7, 3)) == to_string(random_problem(7, 3)));
  CHECK(to_string(random_problem(7, 3)) != to_string(random_problem(8, 3)));
  int empty_batches = 0, with_padding = 0, spare_rows = 0, gqa = 0, not_power_of_two = 0, huge = 0, expanded = 0;
  int wide_rows = 0, empty_sequences = 0, spare_sequences = 0;
  // Of bias broadcasts [batch][head], ALiBi forms [form][slopes per sequence], and the other features.
  int bias[2][2] = {}, dbias_of_its_own = 0, alibi[3][2] = {};
  int softcap = 0, dropout = 0, from_memory = 0, stored = 0, sink = 0, dlse = 0, several = 0;
  double most_work = 0;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const Case c = random_problem(7, i);
    const Problem& p = c.problem;
    most_work = std::max(most_work, work_of(c));
    const std::int64_t ratio = p.nhead_q / p.nhead_k;
    empty_batches += p.batch == 0 ? 1 : 0;
    with_padding += p.logical_lengths != LogicalLengths::none ? 1 : 0;
    gqa += ratio > 1 ? 1 : 0;
    not_power_of_two += (ratio & (ratio - 1)) != 0 ? 1 : 0;
    huge += c.distribution == Distribution::huge_negative_logits ? 1 : 0;
    expanded += c.layouts.dout.expands_seqlen ? 1 : 0;
    wide_rows += c.layouts.q.extra_columns > 0 ? 1 : 0;
    const FeatureChoices& f = c.features;
    if (p.bias == BiasKind::elementwise) ++bias[f.bias_expands_batch ? 1 : 0][f.bias_expands_nhead ? 1 : 0];
    if (p.bias == BiasKind::alibi) ++alibi[static_cast<int>(p.alibi_form)][f.alibi_per_sequence ? 1 : 0];
    dbias_of_its_own +=
        p.has_dbias && (f.dbias_sums_nhead != f.bias_expands_nhead || f.dbias_sums_batch != f.bias_expands_batch) ? 1
                                                                                                                  : 0;
    softcap += p.has_softcap ? 1 : 0;
    dropout += p.has_dropout ? 1 : 0;
    from_memory += f.dropout_from_memory ? 1 : 0;
    stored += p.stores_random_values ? 1 : 0;
    sink += p.has_sink ? 1 : 0;
    dlse += p.has_dlse ? 1 : 0;
    several += p.bias != BiasKind::none && p.has_softcap && p.has_dropout && p.has_sink ? 1 : 0;
    if (!p.is_group_mode) continue;
    spare_rows += p.total_q > c.lengths.q.seqstart.back() ? 1 : 0;
    for (std::size_t s = 1; s < c.lengths.q.seqstart.size(); ++s) {
      const bool is_empty = c.lengths.q.seqstart[s] == c.lengths.q.seqstart[s - 1];
      empty_sequences += is_empty ? 1 : 0;
      spare_sequences += is_empty && s + 1 == c.lengths.q.seqstart.size() ? 1 : 0;
    }
  }
  for (const int count :
       {empty_batches, with_padding, spare_rows, gqa, not_power_of_two, huge, expanded, wide_rows, empty_sequences,
        spare_sequences, dbias_of_its_own, softcap, dropout, from_memory, stored, sink, dlse, several}) {
    CHECK(count >= 5);
  }
  for (const auto& row : bias) {
    for (const int count : row) CHECK(count >= 5);
  }
  for (const auto& row : alibi) {
    for (const int count : row) CHECK(count >= 3);
  }
  CHECK(most_work <= 1e8);
}
