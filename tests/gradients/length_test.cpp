/// @file Faults of lengths: empty sequences, tails, padding, repeated starts, very short sequences.
#include <algorithm>

#include <doctest/doctest.h>

#include "gradient_test.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

bool is_zero(const DenseTensor& tensor, std::int64_t first_row, std::int64_t rows) {
  for (std::int64_t s = first_row; s < first_row + rows; ++s) {
    const double* row = tensor.row(0, s, 0);
    if (!std::all_of(row, row + tensor.nhead * tensor.hdim, [](double x) { return x == 0.0; })) return false;
  }
  return true;
}

bool is_zero(const DenseTensor& tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(), [](double x) { return x == 0.0; });
}

}  // namespace

TEST_CASE("a sequence without queries gives exactly zero dk and dv") {
  const Case c = test::group_case({30, 0, 17}, {40, 150, 5});
  test::check_everywhere(c);
  const Gradients g = test::checked_gradients(c);
  CHECK(is_zero(g.dk, 40, 150));
  CHECK(is_zero(g.dv, 40, 150));
  CHECK_FALSE(is_zero(g.dk, 0, 40));
}

TEST_CASE("a sequence without keys gives exactly zero dq") {
  const Case c = test::group_case({30, 70, 17}, {140, 0, 5});
  test::check_everywhere(c);
  const Gradients g = test::checked_gradients(c);
  CHECK(is_zero(g.dq, 30, 70));
  CHECK_FALSE(is_zero(g.dq, 0, 30));
}

TEST_CASE("batch mode without queries, without keys, or without either gives zeros") {
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{0, 200}, {200, 0}, {0, 30}, {30, 0}, {0, 0}}) {
    const Case c = test::batch_case(2, seqlen_q, seqlen_k);
    test::check_everywhere(c);
    const Gradients g = test::checked_gradients(c);
    CHECK(is_zero(g.dq));
    CHECK(is_zero(g.dk));
    CHECK(is_zero(g.dv));
  }
}

TEST_CASE("a batch of no sequences is an ordinary call, and capacity rows beyond it get zeros") {
  test::check_everywhere(test::batch_case(0, 64, 64));
  Case c = test::group_case({}, {});
  test::check_everywhere(c);
  c.problem.total_q = 37;
  c.problem.total_k = 140;
  c.problem.max_seqlen_q = 37;
  c.problem.max_seqlen_k = 140;
  test::check_everywhere(c);
  CHECK(is_zero(test::checked_gradients(c).dk));
}

TEST_CASE("group mode with sequences that are all empty gives zeros") {
  Case c = test::group_case({0, 0, 0}, {0, 0, 0});
  test::check_everywhere(c);
  c.problem.total_q = c.problem.total_k = 9;
  c.problem.max_seqlen_q = c.problem.max_seqlen_k = 200;
  test::check_everywhere(c);
}

TEST_CASE("rows after the last sequence are zero") {
  Case c = test::group_case({33, 64, 1}, {140, 7, 129}, Mask::causal());
  c.problem.total_q += 75;
  c.problem.total_k += 131;
  test::check_everywhere(c);
  const Gradients g = test::checked_gradients(c);
  CHECK(is_zero(g.dq, 98, 75));
  CHECK(is_zero(g.dk, 276, 131));
  CHECK(is_zero(g.dv, 276, 131));
}

TEST_CASE("NaN in the padding between sequences is never read, and gradients there are zero") {
  for (const LogicalLengths form : {LogicalLengths::per_sequence, LogicalLengths::cumulative}) {
    for (const Mask& mask : {Mask::none(), Mask::causal(), Mask::causal_bottom_right(), Mask::window(20, 5)}) {
      Case c = test::group_case({70, 40, 9, 130}, {150, 33, 64, 20}, mask);
      c.problem.logical_lengths = form;
      c.lengths.q.logical = {65, 40, 0, 1};
      c.lengths.k.logical = {129, 1, 64, 0};
      test::check_everywhere(c);
      const Gradients g = test::checked_gradients(c);
      CHECK(is_zero(g.dq, 65, 5));
      CHECK(is_zero(g.dk, 129, 21));
      CHECK(is_zero(g.dv, 151, 32));
    }
  }
}

TEST_CASE("NaN in the padding of batch mode is never read, and gradients there are zero") {
  for (const LogicalLengths form : {LogicalLengths::per_sequence, LogicalLengths::cumulative}) {
    Case c = test::batch_case(3, 100, 140, Mask::causal_bottom_right());
    c.problem.logical_lengths = form;
    c.lengths.q.logical = {100, 63, 0};
    c.lengths.k.logical = {7, 140, 128};
    test::check_everywhere(c);
    CHECK(is_zero(test::checked_gradients(c).dk, 7, 133));
  }
}

TEST_CASE("starts padded with the repeated last value are ordinary empty sequences") {
  const Case exact = test::group_case({50, 20}, {160, 90}, Mask::causal());
  Case padded = exact;
  for (int i = 0; i < 40; ++i) {
    padded.lengths.q.seqstart.push_back(padded.lengths.q.seqstart.back());
    padded.lengths.k.seqstart.push_back(padded.lengths.k.seqstart.back());
  }
  padded.problem.batch += 40;
  test::check_everywhere(padded);
  Case deterministic = exact;
  deterministic.problem.is_deterministic = padded.problem.is_deterministic = true;
  CHECK(same_bits(test::checked_gradients(padded), test::checked_gradients(deterministic)));
}

TEST_CASE("metadata and kernels agree on offsets whatever the mixture of lengths") {
  // Every sequence has another number of splits; guard zones surround workspaces of exactly the right size.
  test::check_everywhere(test::group_case({5, 300, 1, 64, 65, 0, 128}, {1, 129, 128, 127, 400, 256, 257}));
  test::check_everywhere(test::group_case({5, 300, 1, 64, 65, 0, 128}, {1, 129, 128, 127, 400, 256, 257},
                                          Mask::window(40, 0, MaskAlignment::bottom_right)));
}

TEST_CASE("very short sequences are right, alone and beside long ones") {
  for (const auto& [seqlen_q, seqlen_k] :
       {std::pair{1, 1}, {2, 2}, {7, 7}, {15, 15}, {1, 15}, {15, 2}, {239, 1}, {1, 239}, {113, 203}, {2, 300}}) {
    for (const Mask& mask : {Mask::none(), Mask::causal_bottom_right()}) {
      test::check_everywhere(test::batch_case(2, seqlen_q, seqlen_k, mask));
    }
  }
  test::check_everywhere(test::group_case({1, 2, 7, 15, 1, 200}, {1, 7, 2, 15, 300, 1}, Mask::causal()));
}
