/// @file Faults of masks: rows without keys, exponents that overflow, skipped tiles, windows off by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "gradient_test.hpp"
#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

/// Keys whose dv is not zero when only query row `row` has a gradient: those that the row sees.
std::set<std::int64_t> keys_reached_from(const Case& c, std::int64_t row) {
  AttentionInputs inputs = draw_inputs(c);
  for (std::int64_t s = 0; s < inputs.dout.seqlen; ++s) {
    if (s == row) continue;
    std::fill_n(inputs.dout.row(0, s, 0), inputs.dout.nhead * inputs.dout.hdim, 0.0);
  }
  DeviceProblem device(c, inputs, reference_forward(inputs), Executor(c.problem));
  const Gradients g = device.run(RunMode::eager).front().gradients;
  std::set<std::int64_t> keys;
  for (std::int64_t j = 0; j < g.dv.seqlen; ++j) {
    const double* dv = g.dv.row(0, j, 0);
    if (std::any_of(dv, dv + g.dv.hdim, [](double x) { return x != 0.0; })) keys.insert(j);
  }
  return keys;
}

std::set<std::int64_t> between(std::int64_t first, std::int64_t last) {
  std::set<std::int64_t> keys;
  for (std::int64_t j = first; j <= last; ++j) keys.insert(j);
  return keys;
}

}  // namespace

TEST_CASE("rows with no visible key give zero dq and add nothing, whether their lse is -inf or +inf") {
  for (const bool is_positive : {false, true}) {
    Case c = test::batch_case(2, 200, 130, Mask::causal_bottom_right());
    c.empty_rows_have_positive_lse = is_positive;
    test::check_everywhere(c);
    c = test::batch_case(1, 90, 40, Mask::window(10, -1));
    c.empty_rows_have_positive_lse = is_positive;
    test::check_everywhere(c);
    c = test::group_case({100, 70, 3}, {20, 300, 0}, Mask::causal_bottom_right());
    c.empty_rows_have_positive_lse = is_positive;
    test::check_everywhere(c);
  }
}

TEST_CASE("logits near -120 with ragged tails overflow nowhere") {
  for (const Mask& mask : {Mask::none(), Mask::causal(), Mask::causal_bottom_right(), Mask::window(30, 7)}) {
    Case c = test::batch_case(2, 70, 133, mask);
    c.distribution = Distribution::huge_negative_logits;
    test::check_everywhere(c);
    c = test::group_case({1, 67, 130}, {129, 5, 131}, mask);
    c.distribution = Distribution::huge_negative_logits;
    test::check_everywhere(c);
    c.problem.logical_lengths = LogicalLengths::per_sequence;
    c.lengths.q.logical = {1, 60, 129};
    c.lengths.k.logical = {127, 1, 130};
    test::check_everywhere(c);
  }
}

TEST_CASE("NaN in lse, o and dout past a sequence's last row never enters dk or dv") {
  // One row of the second tile is real, the others are padding; dk and dv sum over the whole tile.
  Case c = test::group_case({128, 64}, {140, 40});
  c.problem.logical_lengths = LogicalLengths::per_sequence;
  c.lengths.q.logical = {65, 1};
  c.lengths.k.logical = {129, 33};
  test::check_everywhere(c);
}

TEST_CASE("tiles that a window skips leave no hole in dq, dk or dv") {
  for (const MaskAlignment alignment : {MaskAlignment::top_left, MaskAlignment::bottom_right}) {
    test::check_everywhere(test::batch_case(1, 600, 600, Mask::window(3, 0, alignment)));
    test::check_everywhere(test::batch_case(1, 10, 600, Mask::window(5, 0, alignment)));
    test::check_everywhere(test::batch_case(1, 600, 150, Mask::window(5, 5, alignment)));
    test::check_everywhere(test::group_case({10, 400, 90}, {500, 70, 300}, Mask::window(2, 1, alignment)));
  }
}

TEST_CASE("both ends of a window are inclusive, and -1 is unbounded") {
  const auto window = [](std::int64_t left, std::int64_t right) {
    return test::batch_case(1, 300, 300, Mask::window(left, right));
  };
  CHECK(keys_reached_from(window(2, 3), 150) == between(148, 153));
  CHECK(keys_reached_from(window(0, 0), 150) == between(150, 150));
  CHECK(keys_reached_from(window(5, 0), 150) == between(145, 150));
  CHECK(keys_reached_from(window(-1, 4), 150) == between(0, 154));
  CHECK(keys_reached_from(window(4, -1), 150) == between(146, 299));
  CHECK(keys_reached_from(window(-1, -1), 150) == between(0, 299));
  CHECK(keys_reached_from(window(500, 500), 150) == between(0, 299));
  CHECK(keys_reached_from(window(2, 3), 0) == between(0, 3));
  CHECK(keys_reached_from(window(2, 3), 299) == between(297, 299));
}

TEST_CASE("a bottom-right mask aligns the last query row with the last key") {
  CHECK(keys_reached_from(test::batch_case(1, 100, 250, Mask::causal_bottom_right()), 99) == between(0, 249));
  CHECK(keys_reached_from(test::batch_case(1, 100, 250, Mask::causal_bottom_right()), 0) == between(0, 150));
  CHECK(keys_reached_from(test::batch_case(1, 100, 250, Mask::causal()), 99) == between(0, 99));
  CHECK(keys_reached_from(test::batch_case(1, 250, 100, Mask::causal_bottom_right()), 150) == between(0, 0));
  CHECK(keys_reached_from(test::batch_case(1, 250, 100, Mask::causal_bottom_right()), 149).empty());
  const Mask window = Mask::window(1, 2, MaskAlignment::bottom_right);
  CHECK(keys_reached_from(test::batch_case(1, 100, 250, window), 50) == between(199, 202));
}

TEST_CASE("windows are aligned by logical lengths, not by physical ones") {
  Case c = test::batch_case(1, 100, 250, Mask::window(1, 2, MaskAlignment::bottom_right));
  c.problem.logical_lengths = LogicalLengths::per_sequence;
  c.lengths.q.logical = {80};
  c.lengths.k.logical = {140};
  CHECK(keys_reached_from(c, 50) == between(109, 112));
}

TEST_CASE("bounds as large as the type allows are unbounded, not overflowing") {
  constexpr std::int64_t kLargest = 2147483647;
  CHECK(keys_reached_from(test::batch_case(1, 40, 200, Mask::window(kLargest, kLargest)), 20) == between(0, 199));
  CHECK(keys_reached_from(test::batch_case(1, 40, 200, Mask::window(0, kLargest)), 20) == between(20, 199));
}

TEST_CASE("a NaN in lse, whatever its bits, reaches the gradients of its row and of the keys that the row sees") {
  constexpr std::int64_t kRow = 70;
  for (const DataType dtype : test::dtypes_to_test()) {
    for (const std::int64_t seqlen_k : {100, 300}) {
      Case c = test::batch_case(1, 130, seqlen_k, Mask::window(20, 20));
      c.problem.dtype = dtype;
      if (!test::is_supported(c.problem)) continue;
      CAPTURE(seqlen_k);
      const AttentionInputs inputs = draw_inputs(c);
      ForwardResult forward = reference_forward(inputs);
      *forward.lse.row(0, kRow, 0) = std::bit_cast<double>(~std::uint64_t{0});
      DeviceProblem device(c, inputs, forward, Executor(c.problem));
      const Gradients g = device.run(RunMode::eager).front().gradients;
      const auto is_nan = [](double x) { return std::isnan(x); };
      const auto all_are_nan = [&](const double* row, std::int64_t count) {
        return std::all_of(row, row + count, is_nan);
      };
      CHECK(all_are_nan(g.dq.row(0, kRow, 0), g.dq.hdim));
      for (std::int64_t j = 0; j < seqlen_k; ++j) {
        CAPTURE(j);
        const bool is_seen = j >= kRow - 20 && j <= kRow + 20;
        CHECK(all_are_nan(g.dk.row(0, j, 0), g.dk.hdim) == is_seen);
        CHECK(all_are_nan(g.dv.row(0, j, 0), g.dv.hdim) == is_seen);
      }
    }
  }
}
