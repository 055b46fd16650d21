/// @file What the features do to one pair of a query row and a key: soft-cap, bias and ALiBi on the way to its logit,
/// dropout. The one place for it: forward, backward and dbias share it.
#pragma once

#include "elements.cuh"
#include "fmhax/contract/philox.hpp"
#include "fmhax/contract/sequence.hpp"

namespace fmhax::portable {

/// A logit, and its derivative by scale * (Q K^T): what dS is multiplied by on the way to dq and dk, not to dbias.
struct Logit {
  float value = 0.0F;
  float slope = 1.0F;
};

/// How logits of one query head of one sequence come about; the same for all threads that work on it, so every branch
/// in here is uniform.
struct LogitFeatures {
  const std::uint16_t* bias = nullptr;  ///< of query row 0 and key 0 of the sequence; null: no elementwise bias
  std::int64_t bias_stride = 0;         ///< elements from one query row to the next
  std::int32_t seqlen_q = 0;            ///< logical lengths: no bias is read beyond them
  std::int32_t seqlen_k = 0;
  bool has_alibi = false;
  AlibiForm alibi_form = AlibiForm::distance_top_left;
  float alibi_slope = 0.0F;
  float softcap = 0.0F;  ///< 0: none
  float inverse_softcap = 0.0F;

  /// Whether a logit is anything but scale * (Q K^T).
  __device__ bool any() const { return bias != nullptr || has_alibi || softcap != 0.0F; }

  /// `score` is scale * (Q K^T); row and key count within the sequence and may lie beyond its end (what comes out then
  /// means nothing).
  template <DataType kDtype>
  __device__ Logit logit(float score, std::int32_t row, std::int32_t key) const {
    Logit logit{score, 1.0F};
    if (softcap != 0.0F) {
      const float bent = tanhf(score * inverse_softcap);
      logit = {softcap * bent, 1.0F - bent * bent};
    }
    if (bias != nullptr) {
      if (row < seqlen_q && key < seqlen_k) logit.value += widen<kDtype>(bias[row * bias_stride + key]).x;
    } else if (has_alibi) {
      logit.value += alibi_slope * alibi_term(row, key);
    }
    return logit;
  }

 private:
  /// alibi_distance() in 32 bits: distances of two int32 fit an unsigned one.
  __device__ float alibi_term(std::int32_t row, std::int32_t key) const {
    if (alibi_form == AlibiForm::column) return static_cast<float>(key);
    const std::int32_t diagonal = row + (alibi_form == AlibiForm::distance_bottom_right ? seqlen_k - seqlen_q : 0);
    const auto down = static_cast<std::uint32_t>(diagonal) - static_cast<std::uint32_t>(key);
    return -static_cast<float>(diagonal < key ? 0U - down : down);
  }
};

/// `q` and `k` are the sequence's ranges.
__device__ inline LogitFeatures logit_features(const KernelParams& params, std::int64_t sequence, std::int64_t head,
                                               const SequenceRange& q, const SequenceRange& k) {
  const Problem& p = params.problem;
  LogitFeatures features;
  features.seqlen_q = static_cast<std::int32_t>(q.logical);
  features.seqlen_k = static_cast<std::int32_t>(k.logical);
  if (p.bias == BiasKind::elementwise) {
    features.bias = static_cast<const std::uint16_t*>(params.bias.data) +
                    row_offset(params.bias, p.is_group_mode ? 0 : sequence, q.start, head);
    features.bias_stride = params.bias.stride_seqlen;
  } else if (p.bias == BiasKind::alibi) {
    features.has_alibi = true;
    features.alibi_form = p.alibi_form;
    features.alibi_slope = arch::plain_nan(params.alibi_slopes[sequence * params.alibi_stride_batch + head]);
  }
  if (p.has_softcap) {
    features.softcap = params.softcap;
    features.inverse_softcap = 1.0F / params.softcap;
  }
  return features;
}

/// Dropout of one query head of one sequence.
struct DropoutFeatures {
  bool is_on = false;
  std::uint32_t threshold = 255;  ///< the largest byte that is kept
  float scale = 1.0F;             ///< of what is kept
  std::uint32_t head = 0;         ///< the generator's: b * nhead_q + h
  DropoutStream stream{};

  /// The bytes of `row` and keys [16 * key_block, + 16): one run of the generator, to be shared where possible.
  __device__ PhiloxWords bytes(std::int32_t row, std::int32_t key_block) const {
    return dropout_bytes(stream, head, row, key_block);
  }
  /// What a probability, or its gradient, is multiplied by.
  __device__ float factor(std::uint32_t byte) const { return byte <= threshold ? scale : 0.0F; }
  /// The same for one pair on its own.
  __device__ float factor(std::int32_t row, std::int32_t key) const {
    if (!is_on) return 1.0F;
    constexpr auto kKeys = static_cast<std::int32_t>(kDropoutKeys);
    return factor(dropout_byte(bytes(row, key / kKeys), key % kKeys));
  }
};

/// Reads seed and offset, which may lie in device memory.
__device__ inline DropoutFeatures dropout_features(const KernelParams& params, std::int64_t sequence,
                                                   std::int64_t head) {
  DropoutFeatures features;
  if (!params.problem.has_dropout) return features;
  features.is_on = true;
  features.threshold = dropout_threshold(params.dropout.probability);
  features.scale = dropout_scale(params.dropout.probability);
  features.head = static_cast<std::uint32_t>(sequence * params.problem.nhead_q + head);
  features.stream = dropout_stream(params.dropout);
  return features;
}

/// Writes the random bytes of query rows `rows` and keys `keys` of one head, both within the sequence's logical
/// lengths; for all kThreads threads of a block together. Pairs that the mask hides are written as well. Rows start
/// anywhere; keys.begin is a multiple of 16.
template <int kThreads>
__device__ void store_random_values(const KernelParams& params, const DropoutFeatures& dropout, std::int64_t sequence,
                                    std::int64_t head, const SequenceRange& q, IndexRange rows, IndexRange keys) {
  if (rows.empty() || keys.empty()) return;
  auto* base = static_cast<std::uint8_t*>(params.random_values.data) +
               row_offset(params.random_values, params.problem.is_group_mode ? 0 : sequence, q.start, head);
  const std::int64_t blocks = (keys.end - keys.begin + kDropoutKeys - 1) / kDropoutKeys;
  const std::int64_t count = (rows.end - rows.begin) * blocks;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    const std::int64_t row = rows.begin + i / blocks;
    const std::int64_t first_key = keys.begin + i % blocks * kDropoutKeys;
    const PhiloxWords words =
        dropout.bytes(static_cast<std::int32_t>(row), static_cast<std::int32_t>(first_key / kDropoutKeys));
    std::uint8_t* to = base + row * params.random_values.stride_seqlen + first_key;
    if (first_key + kDropoutKeys <= keys.end && reinterpret_cast<std::uintptr_t>(to) % sizeof(uint4) == 0) {
      *reinterpret_cast<uint4*>(to) = uint4{words.word[0], words.word[1], words.word[2], words.word[3]};
      continue;
    }
#pragma unroll
    for (std::int64_t j = 0; j < kDropoutKeys; ++j) {
      if (first_key + j < keys.end) to[j] = static_cast<std::uint8_t>(dropout_byte(words, j));
    }
  }
}

}  // namespace fmhax::portable
