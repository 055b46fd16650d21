/// @file What every kernel of a call receives, by value.
#pragma once

#include <cstdint>

#include "fmhax/contract/philox.hpp"
#include "fmhax/contract/problem.hpp"

namespace fmhax {

/// Why a call's sequence lengths were refused on the way.
enum class StatusCode : std::int32_t {
  ok = 0,
  first_not_zero = 1,      ///< seqstart[0] != 0
  decreasing = 2,          ///< a start is smaller than the one before it
  exceeds_tokens = 3,      ///< a start is beyond the token capacity
  exceeds_max_seqlen = 4,  ///< a sequence is longer than the declared maximum
  bad_logical_length = 5,  ///< a logical length is negative or longer than the physical one
  workspace_too_small = 6  ///< the metadata ask for more dq_acc than the caller's buffer holds
};

/// Which side's lengths a status speaks of.
enum class SequenceSide : std::int32_t { q = 0, k = 1 };

/// The result of checking one call's lengths; lives in pinned host memory, written by the call's pack
/// step (or by the kernel that checks for itself), read by the caller at any time.
struct CallStatus {
  StatusCode code = StatusCode::ok;
  SequenceSide side = SequenceSide::q;
  std::int64_t sequence = 0;  ///< the first sequence that is wrong
  std::int64_t value = 0;     ///< what was found
  std::int64_t limit = 0;     ///< what it was compared with
  std::int64_t checks = 0;    ///< calls or replays checked so far
};

/// Lengths in device memory (or host memory, where a host function is given them). int32, tokens.
struct SequenceLengths {
  const std::int32_t* seqstart_q = nullptr;   ///< [batch + 1], group mode
  const std::int32_t* seqstart_k = nullptr;   ///< [batch + 1], group mode
  const std::int32_t* seqlen_q = nullptr;     ///< [batch], LogicalLengths::per_sequence
  const std::int32_t* seqlen_k = nullptr;     ///< [batch]
  const std::int32_t* cu_seqlen_q = nullptr;  ///< [batch + 1], LogicalLengths::cumulative
  const std::int32_t* cu_seqlen_k = nullptr;  ///< [batch + 1]

  friend constexpr bool operator==(const SequenceLengths&, const SequenceLengths&) = default;
};

/// A tensor as a kernel sees it: element (b, s, h, d) is at data[b*stride_batch + s*stride_seqlen +
/// h*stride_nhead + d]. In group mode b is 0 and s counts over the packed rows.
struct TensorRef {
  void* data = nullptr;
  std::int64_t stride_batch = 0;
  std::int64_t stride_seqlen = 0;
  std::int64_t stride_nhead = 0;
};

/// The one argument of every kernel.
struct KernelParams {
  Problem problem{};
  float scale = 1.0F;  ///< softmax scale: S = scale * Q K^T
  TensorRef q{}, k{}, v{}, o{}, dout{};
  TensorRef lse{};  ///< fp32 [batch, seqlen_q, nhead_q]
  TensorRef d{};    ///< fp32, shaped as lse: rowsum(dout * o), written by dot_do_o or prepare_and_dot
  TensorRef dq{}, dk{}, dv{};
  SequenceLengths lengths{};
  // Features; null or zero where the problem doesn't have them.
  /// Elementwise, problem.dtype [batch, seqlen_q, nhead_q, seqlen_k]: s is the query row as in q, d the key's index in
  /// its sequence. Strides of broadcast axes are 0.
  TensorRef bias{};
  TensorRef dbias{};             ///< as bias but for broadcast axes of its own
  std::int64_t dbias_batch = 0;  ///< dbias's sizes: the sums run over the axes of size 1 (group mode: batch is 1, each
  std::int64_t dbias_nhead = 0;  ///< row belongs to one sequence)
  const float* alibi_slopes = nullptr;  ///< slope of (b, h) at alibi_slopes[b * alibi_stride_batch + h]
  std::int64_t alibi_stride_batch = 0;  ///< 0: one slope a head
  TensorRef random_values{};            ///< uint8, indexed as bias
  TensorRef dlse{};                     ///< fp32, as lse
  const float* sink = nullptr;          ///< [nhead_q]
  float* dsink = nullptr;               ///< [nhead_q]
  DropoutArguments dropout{};
  float softcap = 0.0F;
  // The workspace's parts, by WorkspaceSpec; all null for kernels that write dq directly.
  const std::int32_t* nsplits = nullptr;
  const std::int64_t* dq_acc_offsets = nullptr;  ///< group mode only
  const std::int32_t* tile_starts = nullptr;     ///< null without a tile list
  const std::int32_t* tile_sequences = nullptr;
  void* dq_acc = nullptr;
  std::int64_t max_splits = 0;   ///< of the plan, as WorkspaceSpec::max_splits: for preparing and for the size of grids
  CallStatus* status = nullptr;  ///< may be null
  // For prepare and prepare_and_dot alone.
  void* metadata = nullptr;       ///< the head of the workspace, to be written: what nsplits points to
  std::int64_t dq_acc_bytes = 0;  ///< room behind dq_acc
  bool zero_dq_acc = false;       ///< what the kernels will use of dq_acc has to be zeroed
};

}  // namespace fmhax
