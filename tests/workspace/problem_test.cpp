#include "fmhax/problem.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

std::string refusal(const Problem& problem) {
  try {
    validate(problem);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::invalid_argument);
    return e.what();
  }
  return "accepted";
}

struct BadField {
  void (*spoil)(Problem&);
  const char* message;
};

}  // namespace

TEST_CASE("ordinary problems are valid, empty ones too") {
  CHECK(refusal(batch_problem(2, 4, 100, 64)) == "accepted");
  CHECK(refusal(batch_problem(0, 1, 0, 8)) == "accepted");
  CHECK(refusal(group_problem({5, 0, 130}, {0, 7, 9}, 2, 256)) == "accepted");
  CHECK(refusal(group_problem({}, {}, 2, 72)) == "accepted");
  Problem p = batch_problem(2, 15, 100, 104);
  p.nhead_k = 5;
  p.hdim_v = 40;
  p.mask = Mask::window(0, std::numeric_limits<std::int32_t>::max(), MaskAlignment::bottom_right);
  p.bias = BiasKind::elementwise;
  p.has_dbias = p.has_dropout = p.stores_random_values = p.has_sink = p.has_softcap = p.has_dlse = true;
  CHECK(refusal(p) == "accepted");
}

TEST_CASE("each wrong field is named, with its value and what is allowed") {
  const std::vector<BadField> cases{
      {[](Problem& p) { p.dtype = DataType{7}; }, "problem.dtype is 7, but must be in 0..2 (fp32, fp16, bf16)"},
      {[](Problem& p) { p.dtype = DataType{-1}; }, "problem.dtype is -1, but must be in 0..2 (fp32, fp16, bf16)"},
      {[](Problem& p) { p.batch = -1; }, "problem.batch is -1, but must be in 0..2147483647"},
      {[](Problem& p) { p.nhead_q = 0; }, "problem.nhead_q is 0, but must be in 1..2147483647"},
      {[](Problem& p) { p.nhead_k = -4; }, "problem.nhead_k is -4, but must be in 1..2147483647"},
      {[](Problem& p) { p.nhead_k = 3; }, "problem.nhead_q is 4, but must be a multiple of nhead_k = 3"},
      {[](Problem& p) { p.nhead_k = 8; }, "problem.nhead_q is 4, but must be a multiple of nhead_k = 8"},
      {[](Problem& p) { p.hdim_q = 7; }, "problem.hdim_q is 7, but must be a multiple of 8 in 8..256"},
      {[](Problem& p) { p.hdim_q = 0; }, "problem.hdim_q is 0, but must be a multiple of 8 in 8..256"},
      {[](Problem& p) { p.hdim_v = 264; }, "problem.hdim_v is 264, but must be a multiple of 8 in 8..256"},
      {[](Problem& p) { p.hdim_v = -8; }, "problem.hdim_v is -8, but must be a multiple of 8 in 8..256"},
      {[](Problem& p) { p.max_seqlen_q = -1; }, "problem.max_seqlen_q is -1, but must be in 0..2147483647"},
      {[](Problem& p) { p.max_seqlen_k = std::int64_t{1} << 31; },
       "problem.max_seqlen_k is 2147483648, but must be in 0..2147483647"},
      {[](Problem& p) { p.total_q = 3; },
       "problem.total_q is 3, but must be 0 in batch mode, where batch and max_seqlen give the rows"},
      {[](Problem& p) { p.total_k = -3; },
       "problem.total_k is -3, but must be 0 in batch mode, where batch and max_seqlen give the rows"},
      {[](Problem& p) {
         p.is_group_mode = true;
         p.total_q = -1;
       },
       "problem.total_q is -1, but must be in 0..2147483647"},
      {[](Problem& p) {
         p.is_group_mode = true;
         p.total_k = std::int64_t{1} << 31;
       },
       "problem.total_k is 2147483648, but must be in 0..2147483647"},
      {[](Problem& p) { p.mask.alignment = MaskAlignment{2}; },
       "problem.mask.alignment is 2, but must be in 0..1 (top_left, bottom_right)"},
      {[](Problem& p) { p.mask.window_left = -2; }, "problem.mask.window_left is -2, but must be in -1..2147483647"},
      {[](Problem& p) { p.mask.window_right = std::int64_t{1} << 31; },
       "problem.mask.window_right is 2147483648, but must be in -1..2147483647"},
      {[](Problem& p) { p.logical_lengths = LogicalLengths{3}; },
       "problem.logical_lengths is 3, but must be in 0..2 (none, per_sequence, cumulative)"},
      {[](Problem& p) { p.bias = BiasKind{-5}; }, "problem.bias is -5, but must be in 0..2 (none, elementwise, alibi)"},
      {[](Problem& p) { p.has_dbias = true; },
       "problem.has_dbias is true, but must be false unless bias is elementwise"},
      {[](Problem& p) {
         p.bias = BiasKind::alibi;
         p.has_dbias = true;
       },
       "problem.has_dbias is true, but must be false unless bias is elementwise"},
      {[](Problem& p) { p.stores_random_values = true; },
       "problem.stores_random_values is true, but must be false unless has_dropout is true"},
      {[](Problem& p) { p.dtype = DataType::uint8; }, "problem.dtype is 3, but must be in 0..2 (fp32, fp16, bf16)"},
      {[](Problem& p) { p.alibi_form = AlibiForm::column; },
       "problem.alibi_form is 2, but must be 0 (distance_top_left) unless bias is alibi"},
      {[](Problem& p) {
         p.bias = BiasKind::alibi;
         p.alibi_form = AlibiForm{3};
       },
       "problem.alibi_form is 3, but must be in 0..2 (distance_top_left, distance_bottom_right, column)"},
  };
  for (const BadField& bad : cases) {
    Problem p = batch_problem(2, 4, 100, 64);
    bad.spoil(p);
    CHECK(refusal(p) == bad.message);
  }
}

TEST_CASE("a problem prints as one line") {
  Problem p = group_problem({512, 400, 595}, {512, 400, 595}, 16, 128);
  p.batch = 8;
  p.nhead_k = 4;
  p.hdim_v = 64;
  p.max_seqlen_q = p.max_seqlen_k = 512;
  p.mask = Mask::causal();
  CHECK(to_string(p) == "bf16 group batch=8 nhead=16/4 hdim=128/64 max_seqlen=512/512 total=1507/1507 causal");
  p = batch_problem(2, 4, 100, 64);
  p.dtype = DataType::fp16;
  CHECK(to_string(p) == "fp16 batch batch=2 nhead=4/4 hdim=64/64 max_seqlen=100/100");
  p.is_deterministic = p.has_dropout = p.stores_random_values = p.has_dbias = p.has_sink = p.has_softcap = true;
  p.has_dlse = true;
  p.bias = BiasKind::elementwise;
  p.logical_lengths = LogicalLengths::cumulative;
  CHECK(to_string(p) ==
        "fp16 batch batch=2 nhead=4/4 hdim=64/64 max_seqlen=100/100 deterministic cu_seqlen bias dbias dropout "
        "random_values sink softcap dlse");
  p = batch_problem(2, 4, 100, 64);
  p.bias = BiasKind::alibi;
  CHECK(to_string(p) == "bf16 batch batch=2 nhead=4/4 hdim=64/64 max_seqlen=100/100 alibi");
  p.alibi_form = AlibiForm::distance_bottom_right;
  CHECK(to_string(p).ends_with(" alibi:bottom-right"));
  p.alibi_form = AlibiForm::column;
  CHECK(to_string(p).ends_with(" alibi:column"));
}

TEST_CASE("masks and types print as the command's flags name them") {
  CHECK(to_string(Mask::none()) == "none");
  CHECK(to_string(Mask::causal()) == "causal");
  CHECK(to_string(Mask::causal_bottom_right()) == "bottom-right");
  CHECK(to_string(Mask::window(128, 0)) == "window:128,0");
  CHECK(to_string(Mask::window(-1, 4, MaskAlignment::bottom_right)) == "window:-1,4,bottom-right");
  CHECK(std::string(to_string(DataType::fp32)) == "fp32");
  CHECK(std::string(to_string(DataType::fp16)) == "fp16");
  CHECK(std::string(to_string(DataType::bf16)) == "bf16");
  CHECK(std::string(to_string(DataType::uint8)) == "uint8");
  CHECK(std::string(to_string(DataType{9})) == "unknown_dtype");
}
