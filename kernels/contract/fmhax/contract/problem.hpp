/// @file What is to be computed: plain data, shared by host and device.
#pragma once

#include <cstdint>

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax {

/// Element type of q, k, v, o, dout, bias, dq, dk, dv, dbias (not uint8). Accumulation, LSE and D are always fp32.
enum class DataType : std::int32_t {
  fp32 = 0,
  fp16 = 1,
  bf16 = 2,
  uint8 = 3  ///< dropout's random values alone
};

/// Bytes of one element.
FMHAX_HOST_DEVICE constexpr std::int64_t element_size(DataType dtype) {
  return dtype == DataType::fp32 ? 4 : (dtype == DataType::uint8 ? 1 : 2);
}

/// Where the diagonal of a mask starts when seqlen_q and seqlen_k differ.
enum class MaskAlignment : std::int32_t {
  top_left = 0,     ///< query row 0 is aligned with key 0
  bottom_right = 1  ///< the last query row is aligned with the last key
};

/// A sliding window over keys. Query row i sees key j when both bounds hold, each inclusive and each
/// unbounded when -1:   j >= i + offset - window_left   and   j <= i + offset + window_right,
/// with offset 0 (top-left) or seqlen_k - seqlen_q (bottom-right), logical lengths. Causal is {-1, 0}.
struct Mask {
  MaskAlignment alignment = MaskAlignment::top_left;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;

  static constexpr Mask none() { return {}; }
  static constexpr Mask causal() { return {MaskAlignment::top_left, -1, 0}; }
  static constexpr Mask causal_bottom_right() { return {MaskAlignment::bottom_right, -1, 0}; }
  static constexpr Mask window(std::int64_t left, std::int64_t right,
                               MaskAlignment alignment = MaskAlignment::top_left) {
    return {alignment, left, right};
  }
  /// True when no key is ever hidden.
  FMHAX_HOST_DEVICE constexpr bool is_none() const { return window_left < 0 && window_right < 0; }
  friend constexpr bool operator==(const Mask&, const Mask&) = default;
};

/// How logical lengths (lengths without padding) are given, if at all.
enum class LogicalLengths : std::int32_t {
  none = 0,          ///< every physical row is a real token
  per_sequence = 1,  ///< seqlen_q[batch], seqlen_k[batch]
  cumulative = 2     ///< cu_seqlen_q[batch + 1], cu_seqlen_k[batch + 1]
};

/// Additive bias on the logits.
enum class BiasKind : std::int32_t {
  none = 0,
  elementwise = 1,  ///< a tensor of the problem's type
  alibi = 2         ///< a slope times a distance, see AlibiForm
};

/// What ALiBi adds to the logit of query row i and key j (within their sequence, logical lengths). The two distances
/// agree with a mask of the same alignment; column differs from them, under a causal mask, by a constant of the row.
enum class AlibiForm : std::int32_t {
  distance_top_left = 0,      ///< -slope * |i - j|
  distance_bottom_right = 1,  ///< -slope * |i + seqlen_k - seqlen_q - j|
  column = 2                  ///< slope * j
};

/// One backward problem, or in group mode the capacity of one. Everything that selects a kernel or
/// sizes a buffer is here; everything that may differ from call to call is in CallArguments.
struct Problem {
  DataType dtype = DataType::bf16;
  bool is_group_mode = false;  ///< sequences packed one after another, bounds in seqstart_q, seqstart_k
  bool is_deterministic = false;
  std::int64_t batch = 0;  ///< sequences; in group mode the most that a call may have
  std::int64_t nhead_q = 0;
  std::int64_t nhead_k = 0;       ///< heads of k and v; divides nhead_q
  std::int64_t hdim_q = 0;        ///< of q and k
  std::int64_t hdim_v = 0;        ///< of v and o
  std::int64_t max_seqlen_q = 0;  ///< batch mode: the length of every sequence; group mode: the longest allowed
  std::int64_t max_seqlen_k = 0;
  std::int64_t total_q = 0;  ///< group mode: rows of q, padding included; batch mode: 0
  std::int64_t total_k = 0;
  Mask mask{};
  LogicalLengths logical_lengths = LogicalLengths::none;
  BiasKind bias = BiasKind::none;
  bool has_dbias = false;  ///< elementwise bias only
  bool has_dropout = false;
  bool stores_random_values = false;  ///< dropout's random bytes are an output
  bool has_sink = false;              ///< each head's softmax has one more logit, with no value; its gradient is wanted
  bool has_softcap = false;           ///< S = softcap * tanh(scale * Q K^T / softcap), before any bias
  bool has_dlse = false;              ///< the loss also depends on LSE
  AlibiForm alibi_form = AlibiForm::distance_top_left;

  friend constexpr bool operator==(const Problem&, const Problem&) = default;
};

/// Rows of q (and of dq) that a call covers.
FMHAX_HOST_DEVICE constexpr std::int64_t rows_q(const Problem& p) {
  return p.is_group_mode ? p.total_q : p.batch * p.max_seqlen_q;
}
/// Rows of k and v (and of dk and dv) that a call covers.
FMHAX_HOST_DEVICE constexpr std::int64_t rows_k(const Problem& p) {
  return p.is_group_mode ? p.total_k : p.batch * p.max_seqlen_k;
}

}  // namespace fmhax
