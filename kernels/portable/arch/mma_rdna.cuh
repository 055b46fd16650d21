/// @file Matrix instructions of RDNA 4 GPUs behind the portable kernels' trait. "RDNA4 Instruction Set Architecture",
/// chapter "Wave Matrix Multiply Accumulate": V_WMMA_F32_16X16X16 with 32 lanes, which have eight elements each.
#pragma once

#include "arch/mma_amd.cuh"

namespace fmhax::portable {

/// sum += left * right
template <DataType kType>
__device__ inline void multiply(Accumulator& sum, const Operand& left, const Operand& right) {
  const auto c = __builtin_bit_cast(detail::Floats, sum);
  if constexpr (kType == DataType::bf16) {
    using Shorts = short __attribute__((ext_vector_type(8)));
    sum = __builtin_bit_cast(Accumulator, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
                                              __builtin_bit_cast(Shorts, right), __builtin_bit_cast(Shorts, left), c));
  } else {
    using Halves = _Float16 __attribute__((ext_vector_type(8)));
    sum = __builtin_bit_cast(Accumulator, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
                                              __builtin_bit_cast(Halves, right), __builtin_bit_cast(Halves, left), c));
  }
}

template <DataType kType>
__device__ inline void multiply(Accumulator& sum, const DeepOperand& left, const DeepOperand& right) {
  multiply<kType>(sum, left.part[0], right.part[0]);
}

}  // namespace fmhax::portable
