/// @file Matrix instructions of CDNA GPUs behind the portable kernels' trait. "AMD Instinct MI200" and "MI300
/// Instruction Set Architecture", chapter "Matrix Arithmetic Instructions": lanes have four elements each;
/// V_MFMA_F32_16X16X32 of gfx950 has the same layout with eight of A and B, and multiplies two operands of depth 16 as
/// one of depth 32.
#pragma once

#include "arch/mma_amd.cuh"

namespace fmhax::portable {
namespace detail {

using Shorts = short __attribute__((ext_vector_type(4)));
using Halves = _Float16 __attribute__((ext_vector_type(4)));

template <DataType kType>
__device__ inline Floats mfma(const Operand& a, const Operand& b, Floats c) {
  if constexpr (kType == DataType::bf16) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Shorts, a), __builtin_bit_cast(Shorts, b), c, 0,
                                                     0, 0);
  } else {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Halves, a), __builtin_bit_cast(Halves, b), c, 0, 0,
                                                 0);
  }
}

template <DataType kType>
__device__ inline Floats mfma(const DeepOperand& a, const DeepOperand& b, Floats c) {
#if defined(__gfx950__)
  using Bf16s8 = __bf16 __attribute__((ext_vector_type(8)));
  using Halves8 = _Float16 __attribute__((ext_vector_type(8)));
  if constexpr (kType == DataType::bf16) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(Bf16s8, a), __builtin_bit_cast(Bf16s8, b), c, 0,
                                                   0, 0);
  } else {
    return __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(Halves8, a), __builtin_bit_cast(Halves8, b), c, 0,
                                                  0, 0);
  }
#else
  return mfma<kType>(a.part[1], b.part[1], mfma<kType>(a.part[0], b.part[0], c));
#endif
}

}  // namespace detail

/// sum += left * right, of operands or deep operands.
template <DataType kType, class Factor>
__device__ inline void multiply(Accumulator& sum, const Factor& left, const Factor& right) {
  const auto c = __builtin_bit_cast(detail::Floats, sum);
  sum = __builtin_bit_cast(Accumulator, detail::mfma<kType>(right, left, c));
}

}  // namespace fmhax::portable
