/// @file Attention and its gradients in fp64, straight from the formulas: with x = scale Q K^T,
/// S = softcap tanh(x / softcap) + bias, LSE = log(sum of exp(S) + exp(sink)), P = exp(S - LSE) where the mask lets a
/// key be seen, M = dropout's 0 or 1 / (1 - probability); O = (M o P) V, D = rowsum(dO o O) - dLSE,
/// dV = (M o P)^T dO, dP = M o (dO V^T), dS = P o (dP - D), dQ = scale (dS o dS/dx) K, dK = scale (dS o dS/dx)^T Q,
/// dbias = dS summed over the broadcast axes, dsink = -sum of exp(sink - LSE) D. It shares no code with any kernel, nor
/// their index arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "fmhax/contract/philox.hpp"
#include "fmhax/contract/problem.hpp"
#include "verification/dense_tensor.hpp"

namespace fmhax::verification {

/// One side's lengths in host memory, in tokens.
struct SideLengths {
  std::vector<std::int32_t> seqstart;  ///< [batch + 1], physical; group mode only
  std::vector<std::int32_t> logical;   ///< [batch]; empty: every physical row is a real token
};

struct HostLengths {
  SideLengths q;
  SideLengths k;
};

/// What the problem's features need; empty or 0 where the problem doesn't have them.
struct FeatureInputs {
  DenseTensor
      bias;  ///< [batch or 1, seqlen_q, nhead_q or 1, max_seqlen_k] as CallArguments::bias; a row's keys in hdim
  std::int64_t dbias_batch = 0;  ///< sizes of dbias: 1 or the bias's full ones
  std::int64_t dbias_nhead = 0;
  std::vector<double> alibi_slopes;  ///< [nhead_q] or [batch * nhead_q]
  double softcap = 0.0;
  DropoutArguments dropout;  ///< by value
  std::vector<double> sink;  ///< [nhead_q]
  DenseTensor dlse;          ///< as lse
};

/// What the reference computes from. Rows outside of the sequences are never read.
struct AttentionInputs {
  Problem problem;
  double scale = 1.0;
  HostLengths lengths;
  DenseTensor q;     ///< [batch, seqlen_q, nhead_q, hdim_q]; group mode [1, total_q, nhead_q, hdim_q]
  DenseTensor k;     ///< nhead_k heads
  DenseTensor v;     ///< nhead_k heads of hdim_v
  DenseTensor dout;  ///< nhead_q heads of hdim_v
  FeatureInputs features{};
};

struct ForwardResult {
  DenseTensor o;    ///< as dout; 0 in rows that see no key
  DenseTensor lse;  ///< hdim 1, natural logarithm; rows that see no key have the sink, or -infinity, as others' rows
};

/// dq as q, dk as k, dv as v; rows of no sequence are 0. What the problem doesn't ask for is empty.
struct Gradients {
  DenseTensor dq;
  DenseTensor dk;
  DenseTensor dv;
  DenseTensor dbias{};
  DenseTensor dsink{};  ///< [1, 1, nhead_q, 1]
  DenseTensor
      random_values{};  ///< no gradient, but an output like them: [batch, seqlen_q, nhead_q, max_seqlen_k] bytes
};

struct BackwardResult {
  Gradients gradients;
  DenseTensor d;  ///< hdim 1, minus dlse
  /// Root of the sum of squares of the terms that each gradient is a sum of, with |dP| + |D| +
  /// |dO| |V| / sqrt(hdim_v) in place of dP - D: the size the gradient would have if neither dS nor the dot
  /// products behind it cancelled. Rounding errors are relative to this.
  double dq_terms = 0.0;
  double dk_terms = 0.0;
  double dv_terms = 0.0;
  double dbias_terms = 0.0;
  double dsink_terms = 0.0;
  /// [batch * seqlen]: whether a row of q sees a key, and whether a row of k is seen. Where not, the
  /// gradients are exactly 0.
  std::vector<char> query_is_active;
  std::vector<char> key_is_active;
  std::vector<char> dbias_is_active;  ///< as dbias's elements
};

/// dbias or random values with `value` everywhere: a row's keys in hdim.
DenseTensor row_by_key(const AttentionInputs& inputs, std::int64_t batch, std::int64_t nhead, double value);

/// The bytes of every pair of a real row and a real key; -1 elsewhere.
DenseTensor reference_random_values(const AttentionInputs& inputs);

/// Both use several threads for large problems; thread-safe. Lengths and shapes must agree.
ForwardResult reference_forward(const AttentionInputs& inputs);
BackwardResult reference_backward(const AttentionInputs& inputs, const ForwardResult& forward);

/// The same formula in fp32, summed one term after another, with o, P (after dropout) and dS before the products that
/// they enter, and the gradients (but dsink) rounded to problem.dtype, and lse to fp32: the error that no kernel whose
/// matrix units take operands of that type can be blamed for.
Gradients rounded_backward(const AttentionInputs& inputs, const ForwardResult& forward);

/// Query-key pairs that the masks leave, over all sequences and query heads.
std::int64_t visible_pairs(const Problem& problem, const HostLengths& lengths);

/// Rows of a sequence that hold real tokens: [start, start + length) of batch entry `batch_index`.
struct SequencePlace {
  std::int64_t batch_index = 0;
  std::int64_t start = 0;
  std::int64_t length = 0;
};
SequencePlace place_of(const Problem& problem, const SideLengths& side, std::int64_t max_seqlen, std::int64_t sequence);

}  // namespace fmhax::verification
