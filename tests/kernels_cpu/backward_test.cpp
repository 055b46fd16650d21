#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "fmhax/contract/workspace.hpp"
#include "laid_out_call.hpp"

namespace fmhax::cpu::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double tolerance(DataType dtype) { return dtype == DataType::fp32 ? 1e-5 : (dtype == DataType::fp16 ? 2e-3 : 1e-2); }

Problem problem(DataType dtype, std::int64_t nhead_q, std::int64_t nhead_k, std::int64_t hdim_q, std::int64_t hdim_v) {
  Problem p;
  p.dtype = dtype;
  p.nhead_q = nhead_q;
  p.nhead_k = nhead_k;
  p.hdim_q = hdim_q;
  p.hdim_v = hdim_v;
  return p;
}

template <class F>
void for_each_isa(F&& f) {
  for (int level = 0; level <= static_cast<int>(detected_isa()); ++level) {
    CAPTURE(level);
    f(static_cast<Isa>(level));
  }
}

template <class F>
void for_each_type(F&& f) {
  for (const DataType dtype : {DataType::fp32, DataType::fp16, DataType::bf16}) {
    CAPTURE(static_cast<int>(dtype));
    f(dtype);
  }
}

// With every instruction set.
void check_gradients(const CallSpec& spec) {
  const double limit = tolerance(spec.problem.dtype);
  LaidOutCall call(spec);
  for_each_isa([&](Isa isa) {
    call.run(isa);
    CHECK(call.dq_error() <= limit);
    CHECK(call.dk_error() <= limit);
    CHECK(call.dv_error() <= limit);
  });
}

}  // namespace

TEST_CASE("general kernels in batch mode agree with fp64 for every instruction set and type") {
  for_each_type([](DataType dtype) {
    CallSpec spec;
    spec.problem = problem(dtype, 4, 2, 40, 24);
    spec.lengths = {{150, 300}, {150, 300}};
    check_gradients(spec);
    spec.problem.mask = Mask::causal();
    check_gradients(spec);
    spec.problem.mask = Mask::causal_bottom_right();
    check_gradients(spec);
    spec.problem.mask = Mask::window(37, 5, MaskAlignment::bottom_right);
    check_gradients(spec);
  });
}

TEST_CASE("general kernels in group mode agree with fp64, with and without determinism") {
  for_each_type([](DataType dtype) {
    for (const bool is_deterministic : {false, true}) {
      CAPTURE(is_deterministic);
      CallSpec spec;
      spec.problem = problem(dtype, 2, 1, 64, 72);
      spec.problem.is_group_mode = true;
      spec.problem.is_deterministic = is_deterministic;
      spec.lengths = {{5, 130}, {0, 40}, {129, 257}, {30, 0}, {0, 0}, {65, 64}, {1, 1}};
      spec.spare_rows = 9;
      check_gradients(spec);
      spec.problem.mask = Mask::window(20, 3);
      check_gradients(spec);
    }
  });
}

TEST_CASE("padding between sequences is never read and its gradients are zero") {
  for_each_type([](DataType dtype) {
    for (const bool is_deterministic : {false, true}) {
      for (const LogicalLengths given : {LogicalLengths::per_sequence, LogicalLengths::cumulative}) {
        CallSpec spec;
        spec.problem = problem(dtype, 2, 2, 16, 32);
        spec.problem.is_group_mode = true;
        spec.problem.is_deterministic = is_deterministic;
        spec.problem.logical_lengths = given;
        spec.lengths = {{70, 140, 65, 100}, {8, 300, 0, 129}, {20, 20, 20, 0}, {66, 128, 1, 128}};
        spec.spare_rows = 3;
        check_gradients(spec);
        spec.problem.mask = Mask::causal_bottom_right();
        check_gradients(spec);
      }
    }
  });
}

TEST_CASE("persistent kernels agree with fp64 for any number of workers") {
  for_each_type([](DataType dtype) {
    for (const std::int64_t workers : {1, 2, 3, 5, 7, 64}) {
      CAPTURE(workers);
      CallSpec spec;
      spec.problem = problem(dtype, 4, 2, 24, 16);
      spec.problem.is_deterministic = true;
      spec.kernels = Kernels::persistent;
      spec.workers = workers;
      spec.lengths = {{70, 390}, {70, 390}};
      check_gradients(spec);
      spec.problem.mask = Mask::causal_bottom_right();
      spec.problem.logical_lengths = LogicalLengths::per_sequence;
      spec.lengths = {{70, 390, 33, 200}, {70, 390, 70, 1}};
      check_gradients(spec);
    }
  });
}

TEST_CASE("direct kernels agree with fp64 in batch and group mode") {
  for_each_type([](DataType dtype) {
    CallSpec spec;
    spec.kernels = Kernels::direct;
    spec.problem = problem(dtype, 6, 2, 48, 80);
    spec.lengths = {{100, 77}, {100, 77}};
    check_gradients(spec);
    spec.problem.mask = Mask::causal_bottom_right();
    check_gradients(spec);
    spec.problem.is_group_mode = true;
    spec.problem.logical_lengths = LogicalLengths::per_sequence;
    spec.lengths = {{1, 2}, {7, 15}, {0, 3}, {5, 0}, {200, 128, 190, 97}, {0, 0}, {9, 9, 9, 0}};
    spec.spare_rows = 4;
    check_gradients(spec);
    spec.problem.mask = Mask::window(3, 0);
    check_gradients(spec);
  });
}

TEST_CASE("every head dimension that is a multiple of 8 works") {
  for_each_type([](DataType dtype) {
    for (std::int64_t hdim = 8; hdim <= 256; hdim += 8) {
      CAPTURE(hdim);
      CallSpec spec;
      spec.problem = problem(dtype, 1, 1, hdim, 264 - hdim);
      spec.lengths = {{19, 131}};
      check_gradients(spec);
    }
  });
}

TEST_CASE("rows that see no key add nothing, whatever their lse says") {
  for_each_type([](DataType dtype) {
    for (const float lse : {0.0F, kInf, -kInf, -1e30F}) {
      for (const Kernels kernels : {Kernels::general, Kernels::direct}) {
        CallSpec spec;
        spec.kernels = kernels;
        spec.problem = problem(dtype, 2, 1, 32, 32);
        spec.problem.mask = Mask::causal_bottom_right();
        spec.unseen_lse = lse;
        spec.lengths = {{200, 50}, {200, 50}};
        check_gradients(spec);
      }
    }
  });
}

TEST_CASE("logits far below zero do not overflow in ragged tiles") {
  for_each_isa([](Isa isa) {
    for (const float shift : {-120.0F, 120.0F}) {
      CallSpec spec;
      spec.problem = problem(DataType::fp32, 1, 1, 32, 32);
      spec.logit_shift = shift;
      spec.lengths = {{67, 133}, {67, 133}};
      LaidOutCall call(spec);
      call.run(isa);
      // lse and logits near 120 have an ulp of 7.6e-6 each, and the coordinate that shifts them cancels in dq and dk.
      CHECK(call.worst_error() <= 2e-4);
      spec.problem.mask = Mask::causal();
      LaidOutCall masked(spec);
      masked.run(isa);
      CHECK(masked.worst_error() <= 2e-4);
    }
  });
}

TEST_CASE("an expanded dout with strides of zero works") {
  for_each_type([](DataType dtype) {
    CallSpec spec;
    spec.problem = problem(dtype, 2, 2, 32, 40);
    spec.has_expanded_dout = true;
    spec.lengths = {{90, 140}, {90, 140}};
    check_gradients(spec);
  });
}

TEST_CASE("deterministic kernels give the same bits with one thread and with many") {
  for_each_type([](DataType dtype) {
    for (const Kernels kernels : {Kernels::general, Kernels::persistent}) {
      CallSpec spec;
      spec.kernels = kernels;
      spec.problem = problem(dtype, 4, 2, 32, 32);
      spec.problem.is_deterministic = true;
      spec.problem.is_group_mode = kernels == Kernels::general;
      spec.workers = 5;
      spec.lengths = {{140, 400}, {140, 400}};
      LaidOutCall call(spec);
      for_each_isa([&](Isa isa) {
        call.run(isa, 1);
        const std::vector<double> first = call.gradient_values();
        for (int repeat = 0; repeat < 3; ++repeat) {
          call.run(isa, 4);
          CHECK(call.gradient_values() == first);
        }
      });
    }
  });
}

TEST_CASE("a call whose metadata say invalid gets NaN in every gradient") {
  for_each_type([](DataType dtype) {
    for (const Kernels kernels : {Kernels::general, Kernels::persistent}) {
      CallSpec spec;
      spec.kernels = kernels;
      spec.problem = problem(dtype, 2, 1, 24, 16);
      spec.problem.is_group_mode = kernels == Kernels::general;
      spec.problem.is_deterministic = true;
      spec.lengths = {{40, 200}, {40, 200}};
      LaidOutCall call(spec);
      call.nsplits.assign(call.nsplits.size(), 77);
      call.nsplits[0] = kInvalidCall;
      for_each_isa([&](Isa isa) {
        call.run(isa);
        CHECK(call.gradients_are_nan());
      });
    }
  });
}

TEST_CASE("the direct kernel checks lengths itself, reports once, and recovers") {
  for_each_type([](DataType dtype) {
    CallSpec spec;
    spec.kernels = Kernels::direct;
    spec.problem = problem(dtype, 2, 1, 24, 16);
    spec.problem.is_group_mode = true;
    spec.spare_rows = 5;
    spec.lengths = {{40, 100}, {30, 60}, {3, 9}};
    LaidOutCall call(spec);
    const std::vector<std::int32_t> good = call.seqstart_k;
    call.seqstart_k = {0, 100, 90, 169};
    call.run(detected_isa());
    CHECK(call.gradients_are_nan());
    CHECK(call.status.code == StatusCode::decreasing);
    CHECK(call.status.side == SequenceSide::k);
    CHECK(call.status.sequence == 1);
    CHECK(call.status.checks == 1);
    call.seqstart_k = {0, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min(), -5};
    call.run(detected_isa());
    CHECK(call.gradients_are_nan());
    CHECK(call.status.checks == 2);
    call.seqstart_k = good;
    call.run(detected_isa());
    CHECK(call.worst_error() <= tolerance(dtype));
    CHECK(call.status.code == StatusCode::ok);
    CHECK(call.status.checks == 3);
  });
}

TEST_CASE("dot_do_o and forward refuse any wrong sequence starts without leaving the tensors") {
  for_each_type([](DataType dtype) {
    CallSpec spec;
    spec.problem = problem(dtype, 2, 1, 24, 16);
    spec.problem.is_group_mode = true;
    spec.problem.logical_lengths = LogicalLengths::per_sequence;
    spec.lengths = {{40, 200}, {30, 60}, {100, 9}};
    LaidOutCall call(spec);
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
    call.seqlen_q = {kMost, kLeast, 500};
    for (const auto& starts :
         {std::vector<std::int32_t>{kLeast, kMost, kLeast, kMost}, {kMost, 50, -3, 170}, {5, 0, 0, 9999}}) {
      call.seqstart_q = call.seqstart_k = starts;
      call.nsplits[0] = kInvalidCall;
      call.run(detected_isa());
      call.run_forward(detected_isa());
      CHECK(call.gradients_are_nan());
      CHECK(call.outputs_are_nan());
    }
  });
}

TEST_CASE("one huge launch block does the work of many") {
  CallSpec spec;
  spec.problem = problem(DataType::fp32, 2, 1, 24, 16);
  spec.problem.is_group_mode = true;
  spec.lengths = {{40, 200}, {30, 60}};
  spec.spare_rows = 2;
  LaidOutCall call(spec);
  call.run(detected_isa());
  const KernelParams params = call.params();
  const TileOps& ops = tile_ops(detected_isa(), DataType::fp32);
  std::fill_n(static_cast<float*>(params.dq_acc), 2 * 70 * 24, 0.0F);
  dot_do_o(params, ops, {0, 1});
  backward_general(params, ops, {0, 1});
  convert_dq(params, ops, {0, 1});
  CHECK(call.worst_error() <= 1e-5);
}

}  // namespace fmhax::cpu::test
