/// @file One problem to be verified: everything but the numbers in its tensors, which follow from its seed.
#pragma once

#include <cstdint>
#include <string>

#include "fmhax/contract/problem.hpp"
#include "verification/dense_tensor.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// Order of the dimensions in memory, the slowest first. In group mode bshd and sbhd are both packed THD,
/// and bhsd is [nhead, total, hdim].
enum class Order { bshd, sbhd, bhsd };

/// How a tensor lies in its allocation.
struct Layout {
  Order order = Order::bshd;
  std::int64_t extra_columns = 0;  ///< elements after each row: a slice of a tensor with a wider last dimension
  std::int64_t extra_heads = 0;    ///< heads after the tensor's own: a slice of e.g. a joint QKV tensor
  bool expands_batch = false;      ///< stride 0: one value for all (inputs only)
  bool expands_seqlen = false;
  bool expands_nhead = false;
};

struct Layouts {
  Layout q, k, v, o, dout, lse, d, dq, dk, dv;
};

/// What a case chooses about the features that its problem has.
struct FeatureChoices {
  bool bias_expands_batch = false;  ///< one bias for all sequences (batch mode), for all heads
  bool bias_expands_nhead = false;
  bool dbias_sums_batch = false;  ///< one dbias for all of them
  bool dbias_sums_nhead = false;
  bool alibi_per_sequence = false;  ///< slopes for each sequence and head, else for each head
  float softcap = 0.0F;
  float dropout_probability = 0.0F;
  bool dropout_from_memory = false;  ///< seed and offset are read from device memory
  Layout bias, dbias, random_values, dlse;
};

/// What the inputs look like.
enum class Distribution {
  normal,               ///< q, k, v, dout standard normal
  huge_negative_logits  ///< the same, with every logit shifted by about -120
};

struct Case {
  Problem problem{};
  float scale = 1.0F;
  HostLengths lengths;  ///< logical lengths are given to the call as problem.logical_lengths says
  Layouts layouts;
  Distribution distribution = Distribution::normal;
  bool empty_rows_have_positive_lse = false;  ///< rows that see no key come with lse = +inf, else -inf
  std::uint64_t seed = 0;                     ///< of the inputs
  FeatureChoices features{};
};

/// One line for people: the problem, lengths and what is special about the layouts.
std::string to_string(const Case& c);

/// Rows and batch entries of the tensors.
inline std::int64_t tensor_batch(const Problem& p) { return p.is_group_mode ? 1 : p.batch; }
inline std::int64_t tensor_seqlen_q(const Problem& p) { return p.is_group_mode ? p.total_q : p.max_seqlen_q; }
inline std::int64_t tensor_seqlen_k(const Problem& p) { return p.is_group_mode ? p.total_k : p.max_seqlen_k; }

/// Inputs drawn from the seed, rounded to the element type; expanded dimensions repeat their first entry.
AttentionInputs draw_inputs(const Case& c);

}  // namespace fmhax::verification
