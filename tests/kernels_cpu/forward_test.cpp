#include <doctest/doctest.h>

#include "laid_out_call.hpp"

namespace fmhax::cpu::test {
namespace {

void check_forward(const CallSpec& spec) {
  const DataType dtype = spec.problem.dtype;
  LaidOutCall call(spec);
  for (int level = 0; level <= static_cast<int>(detected_isa()); ++level) {
    CAPTURE(level);
    CAPTURE(static_cast<int>(dtype));
    call.run_forward(static_cast<Isa>(level));
    CHECK(call.o_error() <= (dtype == DataType::fp32 ? 1e-5 : (dtype == DataType::fp16 ? 2e-3 : 1e-2)));
    CHECK(call.lse_error() <= 1e-5);
  }
}

CallSpec forward_spec(DataType dtype) {
  CallSpec spec;
  spec.problem.dtype = dtype;
  spec.problem.nhead_q = 4;
  spec.problem.nhead_k = 2;
  spec.problem.hdim_q = 40;
  spec.problem.hdim_v = 72;
  return spec;
}

}  // namespace

TEST_CASE("forward agrees with fp64 in batch mode under every mask") {
  for (const DataType dtype : {DataType::fp32, DataType::fp16, DataType::bf16}) {
    for (const Mask& mask : {Mask::none(), Mask::causal(), Mask::causal_bottom_right(), Mask::window(30, 7),
                             Mask::window(200, -1, MaskAlignment::bottom_right), Mask::window(0, 0)}) {
      CallSpec spec = forward_spec(dtype);
      spec.problem.mask = mask;
      spec.lengths = {{150, 300}, {150, 300}};
      check_forward(spec);
      spec.problem.max_seqlen_q = spec.problem.max_seqlen_k = 0;
      spec.lengths = {{300, 77}};
      check_forward(spec);
    }
  }
}

TEST_CASE("forward writes zero and minus infinity for padding, tails and rows that see nothing") {
  for (const DataType dtype : {DataType::fp32, DataType::fp16, DataType::bf16}) {
    CallSpec spec = forward_spec(dtype);
    spec.problem.is_group_mode = true;
    spec.problem.logical_lengths = LogicalLengths::cumulative;
    spec.problem.mask = Mask::causal_bottom_right();
    spec.lengths = {{70, 140, 65, 100}, {8, 300, 0, 129}, {20, 20, 20, 0}, {200, 128, 190, 40}, {0, 0}};
    spec.spare_rows = 11;
    check_forward(spec);
  }
}

}  // namespace fmhax::cpu::test
