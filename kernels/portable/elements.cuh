/// @file 16-bit elements as floats, and rows of them, aligned or not.
#pragma once

#include "arch/arch.cuh"
#include "fmhax/contract/params.hpp"

namespace fmhax::portable {

/// Elements of one 16-byte vector of a 16-bit type.
inline constexpr int kVector = 8;

template <DataType kDtype>
__device__ __forceinline__ float2 widen(std::uint32_t pair) {
  static_assert(kDtype == DataType::fp16 || kDtype == DataType::bf16);
  if constexpr (kDtype == DataType::fp16) {
    return arch::fp16_pair_to_floats(pair);
  } else {
    return {__uint_as_float(pair << 16U), __uint_as_float(pair & 0xffff0000U)};
  }
}

template <DataType kDtype>
__device__ __forceinline__ std::uint32_t narrow(float first, float second) {
  static_assert(kDtype == DataType::fp16 || kDtype == DataType::bf16);
  if constexpr (kDtype == DataType::fp16) {
    return arch::floats_to_fp16_pair(first, second);
  } else {
    return arch::floats_to_bf16_pair(first, second);
  }
}

/// The same for numbers whose NaNs are plain (arch::plain_nan).
template <DataType kDtype>
__device__ __forceinline__ std::uint32_t narrow_plain(float first, float second) {
  if constexpr (kDtype == DataType::bf16) {
    return arch::plain_floats_to_bf16_pair(first, second);
  } else {
    return narrow<kDtype>(first, second);
  }
}

/// Two copies of one element.
__device__ __forceinline__ std::uint32_t twice(std::uint16_t bits) {
  return static_cast<std::uint32_t>(bits) << 16U | bits;
}

/// Eight elements, from an address that is aligned to 16 bytes or only to elements.
template <bool kIsAligned>
__device__ __forceinline__ uint4 load_vector(const std::uint16_t* from) {
  if constexpr (kIsAligned) {
    return arch::load_streaming(reinterpret_cast<const uint4*>(from));
  } else {
    const auto pair = [from](int i) {
      return static_cast<std::uint32_t>(arch::load_global(from + i + 1)) << 16U | arch::load_global(from + i);
    };
    return {pair(0), pair(2), pair(4), pair(6)};
  }
}

/// Four elements, to an address that is aligned to 8 bytes or only to elements.
__device__ __forceinline__ void store_half_vector(std::uint16_t* to, uint2 value, bool is_aligned) {
  if (is_aligned) {
    arch::store_streaming(reinterpret_cast<uint2*>(to), value);
  } else {
    to[0] = static_cast<std::uint16_t>(value.x);
    to[1] = static_cast<std::uint16_t>(value.x >> 16U);
    to[2] = static_cast<std::uint16_t>(value.y);
    to[3] = static_cast<std::uint16_t>(value.y >> 16U);
  }
}

template <DataType kDtype>
__device__ __forceinline__ float dot(const uint4& a, const uint4& b) {
  const auto pair = [](std::uint32_t x, std::uint32_t y, float sum) {
    const float2 u = widen<kDtype>(x);
    const float2 v = widen<kDtype>(y);
    return fmaf(u.y, v.y, fmaf(u.x, v.x, sum));
  };
  return pair(a.w, b.w, pair(a.z, b.z, pair(a.y, b.y, pair(a.x, b.x, 0.0F))));
}

/// Element offset of a row; `batch` is 0 and `row` counts packed rows in group mode.
__device__ __forceinline__ std::int64_t row_offset(const TensorRef& tensor, std::int64_t batch, std::int64_t row,
                                                   std::int64_t head) {
  return batch * tensor.stride_batch + row * tensor.stride_seqlen + head * tensor.stride_nhead;
}

}  // namespace fmhax::portable
