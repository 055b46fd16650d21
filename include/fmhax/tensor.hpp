/// @file Non-owning tensor views and the arguments of a call.
#pragma once

#include <cstdint>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/problem.hpp"
#include "fmhax/status.hpp"

namespace fmhax {

/// A non-owning view of a device tensor [batch, seqlen, nhead, hdim]. Strides are in elements, may be 0
/// or negative-free in any order (BSHD, SBHD, BHSD, slices of wider tensors); hdim must be contiguous.
/// Outputs must not overlap themselves. In group mode batch is 1 and seqlen counts the packed rows.
struct TensorView {
  void* data = nullptr;
  DataType dtype = DataType::fp32;
  std::int64_t batch = 0;
  std::int64_t seqlen = 0;
  std::int64_t nhead = 0;
  std::int64_t hdim = 0;
  std::int64_t stride_batch = 0;
  std::int64_t stride_seqlen = 0;
  std::int64_t stride_nhead = 0;
  std::int64_t stride_hdim = 1;

  /// Contiguous [batch, seqlen, nhead, hdim].
  static constexpr TensorView bshd(void* data, DataType dtype, std::int64_t batch, std::int64_t seqlen,
                                   std::int64_t nhead, std::int64_t hdim) {
    return {data, dtype, batch, seqlen, nhead, hdim, seqlen * nhead * hdim, nhead * hdim, hdim, 1};
  }
  /// Contiguous [batch, nhead, seqlen, hdim].
  static constexpr TensorView bhsd(void* data, DataType dtype, std::int64_t batch, std::int64_t seqlen,
                                   std::int64_t nhead, std::int64_t hdim) {
    return {data, dtype, batch, seqlen, nhead, hdim, nhead * seqlen * hdim, hdim, seqlen * hdim, 1};
  }
  /// Contiguous [seqlen, batch, nhead, hdim].
  static constexpr TensorView sbhd(void* data, DataType dtype, std::int64_t batch, std::int64_t seqlen,
                                   std::int64_t nhead, std::int64_t hdim) {
    return {data, dtype, batch, seqlen, nhead, hdim, nhead * hdim, batch * nhead * hdim, hdim, 1};
  }
  /// Packed [total, nhead, hdim], group mode.
  static constexpr TensorView thd(void* data, DataType dtype, std::int64_t total, std::int64_t nhead,
                                  std::int64_t hdim) {
    return {data, dtype, 1, total, nhead, hdim, total * nhead * hdim, nhead * hdim, hdim, 1};
  }
  /// Contiguous fp32 rows [batch, nhead, seqlen]: lse, d.
  static constexpr TensorView rows_bhs(float* data, std::int64_t batch, std::int64_t nhead, std::int64_t seqlen) {
    return {data, DataType::fp32, batch, seqlen, nhead, 1, nhead * seqlen, 1, seqlen, 1};
  }
  /// Packed fp32 rows [nhead, total]: lse, d in group mode.
  static constexpr TensorView rows_ht(float* data, std::int64_t nhead, std::int64_t total) {
    return {data, DataType::fp32, 1, total, nhead, 1, nhead * total, 1, total, 1};
  }

  friend constexpr bool operator==(const TensorView&, const TensorView&) = default;
};

/// Everything that may differ from call to call. All pointers are device pointers of the stream's device
/// and must stay valid until the enqueued work (for a graph: its last replay) is over.
struct CallArguments {
  float scale = 1.0F;  ///< softmax scale, usually 1 / sqrt(hdim_q)
  TensorView q;        ///< [batch, seqlen_q, nhead_q, hdim_q]
  TensorView k;        ///< [batch, seqlen_k, nhead_k, hdim_q]
  TensorView v;        ///< [batch, seqlen_k, nhead_k, hdim_v]
  TensorView o;        ///< [batch, seqlen_q, nhead_q, hdim_v]; written by enqueue_forward
  TensorView dout;     ///< as o
  TensorView lse;      ///< fp32 [batch, seqlen_q, nhead_q, 1], natural log; written by enqueue_forward
  /// Scratch, fp32, as lse; receives rowsum(dout * o), minus dlse. Kernels that write dq directly need it with dbias or
  /// sink alone.
  TensorView d;
  TensorView dq;              ///< as q; every row is written, rows of no sequence with zero
  TensorView dk;              ///< as k
  TensorView dv;              ///< as v
  SequenceLengths lengths;    ///< group mode, and wherever the problem has logical lengths
  void* workspace = nullptr;  ///< may be null when workspace_size is 0 or a workspace_alloc is set
  std::int64_t workspace_bytes = 0;
  /// Where the call reports sequence lengths that were refused on the way; may be empty.
  StatusBuffer status;

  // Features. What the problem doesn't have must be left as it is.

  /// Elementwise bias [batch or 1, seqlen_q, nhead_q or 1, seqlen_k] of the problem's type: seqlen counts query rows,
  /// hdim counts keys and is contiguous; axes of size 1 are broadcast. Group mode: [1, total_q, nhead_q or 1,
  /// max_seqlen_k], rows packed as in q, keys counted within their sequence.
  TensorView bias{};
  /// The bias's gradient, of that form but with broadcast axes of its own, over which it is the sum. Every element is
  /// written, with zero where no row sees a key.
  TensorView dbias{};
  const float* alibi_slopes = nullptr;  ///< [nhead_q], or [batch, nhead_q] when alibi_stride_batch is not 0
  std::int64_t alibi_stride_batch = 0;  ///< elements; 0: one slope a head
  float softcap = 0.0F;                 ///< positive
  DropoutArguments dropout{};           ///< philox.hpp says which bits it draws
  /// uint8, of the bias's form without broadcast axes: dropout's bytes, written by enqueue and enqueue_forward for
  /// every pair of a real row and a real key, masked or not.
  TensorView random_values{};
  const float* sink = nullptr;  ///< [nhead_q]: one more logit of each row's softmax, counted in lse
  float* dsink = nullptr;       ///< [nhead_q]: its gradient
  TensorView dlse{};            ///< fp32, as lse: the loss's gradient by lse

  friend bool operator==(const CallArguments&, const CallArguments&) = default;
};

}  // namespace fmhax
