#include "verification/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "verification/half.hpp"
#include "verification/parallel.hpp"
#include "verification/reference_features.hpp"
#include "verification/reference_matrix.hpp"

namespace fmhax::verification {
namespace {

bool is_visible(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t i, std::int64_t j) {
  const std::int64_t diagonal = mask.alignment == MaskAlignment::bottom_right ? i + (seqlen_k - seqlen_q) : i;
  if (mask.window_left >= 0 && j < diagonal - mask.window_left) return false;
  if (mask.window_right >= 0 && j > diagonal + mask.window_right) return false;
  return true;
}

Sequence sequence_of(const AttentionInputs& in, std::int64_t i) {
  return {i, place_of(in.problem, in.lengths.q, in.problem.max_seqlen_q, i),
          place_of(in.problem, in.lengths.k, in.problem.max_seqlen_k, i)};
}

int threads_for(const AttentionInputs& in) {
  if (in.problem.has_dbias) return 1;  // what is summed over sequences or heads is summed by one thread
  double pairs = 0;
  for (std::int64_t i = 0; i < in.problem.batch; ++i) {
    const Sequence s = sequence_of(in, i);
    pairs += static_cast<double>(s.q.length) * static_cast<double>(s.k.length);
  }
  return useful_threads(pairs * static_cast<double>(in.problem.nhead_q * (in.problem.hdim_q + in.problem.hdim_v)));
}

/// Runs body(sequence, key head, its index) for every pair; different pairs may run at the same time.
template <typename Body>
void for_each_key_head(const AttentionInputs& in, const Body& body) {
  parallel_for(in.problem.batch * in.problem.nhead_k, threads_for(in), [&](std::int64_t job) {
    body(sequence_of(in, job / in.problem.nhead_k), job % in.problem.nhead_k, job);
  });
}

void forward_head(const AttentionInputs& in, const Sequence& s, std::int64_t head, const Matrix<double>& k,
                  const Matrix<double>& v, ForwardResult& result) {
  const auto q = gather<double>(in.q, s.q, head);
  HeadFeatures<double> features(in, s, head);
  Matrix<double> o(s.q.length, v.columns);
  std::vector<double> logits(static_cast<std::size_t>(s.k.length));
  for (std::int64_t i = 0; i < q.rows; ++i) {
    double largest = features.has_sink() ? features.sink() : -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < k.rows; ++j) {
      auto& logit = logits[static_cast<std::size_t>(j)];
      logit = is_visible(in.problem.mask, q.rows, k.rows, i, j)
                  ? features.logit(in.scale * dot(q.row(i), k.row(j), q.columns), i, j)
                  : -std::numeric_limits<double>::infinity();
      largest = std::max(largest, logit);
    }
    if (std::isinf(largest)) continue;
    double sum = features.has_sink() ? std::exp(features.sink() - largest) : 0.0;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const double weight = std::exp(logits[static_cast<std::size_t>(j)] - largest);
      sum += weight;
      if (weight != 0) add_scaled(o.row(i), weight * features.keep(i, j), v.row(j), v.columns);
    }
    for (std::int64_t c = 0; c < o.columns; ++c) o.row(i)[c] /= sum;
    *result.lse.row(s.q.batch_index, s.q.start + i, head) = largest + std::log(sum);
  }
  scatter(o, s.q, head, result.o);
}

/// Squares of the terms' sizes, see BackwardResult.
struct TermSquares {
  double dq = 0;
  double dk = 0;
  double dv = 0;
  double dbias = 0;
  double dsink = 0;
};

/// What a visible pair contributes.
template <typename Real>
struct Pair {
  std::int64_t i;
  std::int64_t j;
  Real p;
  Real keep;
  Real dp;
  Real ds;
  Real slope;
};

/// The gradients of one query head, dk and dv added to those of its key head.
template <typename Real>
struct BackwardHead {
  const Mask& mask;
  Real scale;
  Matrix<Real> q, o, dout, lse, dlse;
  Matrix<Real> dq, d;
  HeadFeatures<Real> features;
  Real dsink = 0;
  /// What P and dS are rounded to before they enter the products that give dv, dq and dk; fp32: they are not.
  DataType operand_type = DataType::fp32;

  BackwardHead(const AttentionInputs& in, const ForwardResult& forward, const Sequence& s, std::int64_t head)
      : mask(in.problem.mask),
        scale(static_cast<Real>(in.scale)),
        q(gather<Real>(in.q, s.q, head)),
        o(gather<Real>(forward.o, s.q, head)),
        dout(gather<Real>(in.dout, s.q, head)),
        lse(gather<Real>(forward.lse, s.q, head)),
        dlse(in.problem.has_dlse ? gather<Real>(in.features.dlse, s.q, head) : Matrix<Real>(s.q.length, 1)),
        dq(s.q.length, in.q.hdim),
        d(s.q.length, 1),
        features(in, s, head) {}

  /// Calls visit(pair) for each visible pair.
  template <typename Visit>
  void run(const Matrix<Real>& k, const Matrix<Real>& v, Matrix<Real>& dk, Matrix<Real>& dv, const Visit& visit) {
    for (std::int64_t i = 0; i < q.rows; ++i) {
      *d.row(i) = dot(dout.row(i), o.row(i), o.columns) - *dlse.row(i);
      if (features.has_sink()) dsink -= sink_share(i) * *d.row(i);
      if (std::isinf(*lse.row(i))) continue;  // no key has any weight
      for (std::int64_t j = 0; j < k.rows; ++j) {
        if (!is_visible(mask, q.rows, k.rows, i, j)) continue;
        const Real x = scale * dot(q.row(i), k.row(j), q.columns);
        Pair<Real> pair{i, j, std::exp(features.logit(x, i, j) - *lse.row(i)), features.keep(i, j), 0, 0, 0};
        pair.dp = pair.keep * dot(dout.row(i), v.row(j), v.columns);
        pair.ds = pair.p * (pair.dp - *d.row(i));
        pair.slope = features.slope(x);
        const Real p = as_operand(pair.p * pair.keep);
        const Real ds = as_operand(pair.slope * pair.ds);
        add_scaled(dv.row(j), p, dout.row(i), dv.columns);
        add_scaled(dq.row(i), scale * ds, k.row(j), dq.columns);
        add_scaled(dk.row(j), scale * ds, q.row(i), dk.columns);
        visit(pair);
      }
    }
  }

  Real as_operand(Real x) const {
    return operand_type == DataType::fp32 ? x : static_cast<Real>(round_to(operand_type, static_cast<double>(x)));
  }

  /// The sink's part of a row's softmax.
  Real sink_share(std::int64_t i) const { return std::exp(static_cast<Real>(features.sink()) - *lse.row(i)); }
};

std::vector<double> squared_norms(const Matrix<double>& m) {
  std::vector<double> norms(static_cast<std::size_t>(m.rows));
  for (std::int64_t i = 0; i < m.rows; ++i) norms[static_cast<std::size_t>(i)] = dot(m.row(i), m.row(i), m.columns);
  return norms;
}

Gradients zero_gradients(const AttentionInputs& in) {
  Gradients g{DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, in.q.hdim),
              DenseTensor(in.k.batch, in.k.seqlen, in.k.nhead, in.k.hdim),
              DenseTensor(in.v.batch, in.v.seqlen, in.v.nhead, in.v.hdim)};
  if (in.problem.has_dbias) g.dbias = row_by_key(in, in.features.dbias_batch, in.features.dbias_nhead, 0.0);
  if (in.problem.has_sink) g.dsink = DenseTensor(1, 1, in.q.nhead, 1);
  return g;
}

/// The bias's row that one row of a head belongs to.
double* dbias_row(DenseTensor& dbias, const Sequence& s, std::int64_t head, std::int64_t i) {
  return dbias.row(dbias.batch == 1 ? 0 : s.q.batch_index, s.q.start + i, dbias.nhead == 1 ? 0 : head);
}

/// Adds up the parts of each head's dsink, in the order of the sequences; `parts` is [batch, nhead_q].
template <typename Real>
void sum_dsink(const std::vector<Real>& parts, Gradients& gradients) {
  const std::size_t heads = gradients.dsink.data.size();
  for (std::size_t h = 0; h < heads; ++h) {
    Real sum = 0;
    for (std::size_t i = h; i < parts.size(); i += heads) sum += parts[i];
    gradients.dsink.data[h] = static_cast<double>(sum);
  }
}

void mark_active_rows(const AttentionInputs& in, BackwardResult& result) {
  for (std::int64_t b = 0; b < in.problem.batch; ++b) {
    const Sequence s = sequence_of(in, b);
    char* queries = result.query_is_active.data() + s.q.batch_index * in.q.seqlen + s.q.start;
    char* keys = result.key_is_active.data() + s.k.batch_index * in.k.seqlen + s.k.start;
    for (std::int64_t i = 0; i < s.q.length; ++i) {
      for (std::int64_t j = 0; j < s.k.length; ++j) {
        if (is_visible(in.problem.mask, s.q.length, s.k.length, i, j)) queries[i] = keys[j] = 1;
      }
    }
  }
}

}  // namespace

DenseTensor row_by_key(const AttentionInputs& in, std::int64_t batch, std::int64_t nhead, double value) {
  return {batch, in.q.seqlen, nhead, in.problem.max_seqlen_k, value};
}

DenseTensor reference_random_values(const AttentionInputs& in) {
  DenseTensor bytes = row_by_key(in, in.q.batch, in.q.nhead, -1.0);
  for (std::int64_t b = 0; b < in.problem.batch; ++b) {
    const Sequence s = sequence_of(in, b);
    for (std::int64_t head = 0; head < in.problem.nhead_q; ++head) {
      HeadFeatures<double> features(in, s, head);
      for (std::int64_t i = 0; i < s.q.length; ++i) {
        double* row = bytes.row(s.q.batch_index, s.q.start + i, head);
        for (std::int64_t j = 0; j < s.k.length; ++j) row[j] = features.random_byte(i, j);
      }
    }
  }
  return bytes;
}

SequencePlace place_of(const Problem& problem, const SideLengths& side, std::int64_t max_seqlen,
                       std::int64_t sequence) {
  const auto i = static_cast<std::size_t>(sequence);
  SequencePlace place{sequence, 0, max_seqlen};
  if (problem.is_group_mode) place = {0, side.seqstart[i], side.seqstart[i + 1] - side.seqstart[i]};
  if (!side.logical.empty()) place.length = side.logical[i];
  return place;
}

ForwardResult reference_forward(const AttentionInputs& in) {
  ForwardResult result{DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, in.v.hdim),
                       DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, 1, -std::numeric_limits<double>::infinity())};
  const std::int64_t ratio = in.problem.nhead_q / std::max<std::int64_t>(in.problem.nhead_k, 1);
  for_each_key_head(in, [&](const Sequence& s, std::int64_t key_head, std::int64_t) {
    const auto k = gather<double>(in.k, s.k, key_head);
    const auto v = gather<double>(in.v, s.k, key_head);
    for (std::int64_t head = key_head * ratio; head < (key_head + 1) * ratio; ++head) {
      forward_head(in, s, head, k, v, result);
    }
  });
  return result;
}

BackwardResult reference_backward(const AttentionInputs& in, const ForwardResult& forward) {
  BackwardResult result;
  result.gradients = zero_gradients(in);
  result.d = DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, 1);
  result.query_is_active.assign(static_cast<std::size_t>(in.q.batch * in.q.seqlen), 0);
  result.key_is_active.assign(static_cast<std::size_t>(in.k.batch * in.k.seqlen), 0);
  mark_active_rows(in, result);
  DenseTensor& dbias = result.gradients.dbias;
  result.dbias_is_active.assign(dbias.data.size(), 0);
  std::vector<double> dsink(static_cast<std::size_t>(in.problem.batch * in.problem.nhead_q));

  const std::int64_t ratio = in.problem.nhead_q / std::max<std::int64_t>(in.problem.nhead_k, 1);
  std::vector<TermSquares> terms(static_cast<std::size_t>(in.problem.batch * in.problem.nhead_k));
  for_each_key_head(in, [&](const Sequence& s, std::int64_t key_head, std::int64_t job) {
    const auto k = gather<double>(in.k, s.k, key_head);
    const auto v = gather<double>(in.v, s.k, key_head);
    const auto k_squared = squared_norms(k);
    const auto v_squared = squared_norms(v);
    Matrix<double> dk(k.rows, k.columns);
    Matrix<double> dv(v.rows, v.columns);
    TermSquares& sum = terms[static_cast<std::size_t>(job)];
    for (std::int64_t head = key_head * ratio; head < (key_head + 1) * ratio; ++head) {
      BackwardHead<double> part(in, forward, s, head);
      const auto q_squared = squared_norms(part.q);
      const auto dout_squared = squared_norms(part.dout);
      part.run(k, v, dk, dv, [&](const Pair<double>& pair) {
        const auto i = static_cast<std::size_t>(pair.i);
        const auto j = static_cast<std::size_t>(pair.j);
        const double typical_dp =
            pair.keep * std::sqrt(dout_squared[i] * v_squared[j] / static_cast<double>(v.columns));
        const double ds = pair.p * (std::fabs(pair.dp) + std::fabs(*part.d.row(pair.i)) + typical_dp);
        const double scaled = in.scale * pair.slope * ds;
        sum.dq += scaled * scaled * k_squared[j];
        sum.dk += scaled * scaled * q_squared[i];
        sum.dv += pair.p * pair.keep * pair.p * pair.keep * dout_squared[i];
        if (!in.problem.has_dbias) return;
        double& element = dbias_row(dbias, s, head, pair.i)[pair.j];
        element += pair.ds;
        result.dbias_is_active[static_cast<std::size_t>(&element - dbias.data.data())] = 1;
        sum.dbias += ds * ds;
      });
      if (in.problem.has_sink) {
        dsink[static_cast<std::size_t>(s.index * in.problem.nhead_q + head)] = part.dsink;
        for (std::int64_t i = 0; i < part.q.rows; ++i) {
          const double typical_d =
              std::sqrt(dout_squared[static_cast<std::size_t>(i)] * dot(part.o.row(i), part.o.row(i), part.o.columns) /
                        static_cast<double>(v.columns));
          const double term = part.sink_share(i) * (std::fabs(*part.d.row(i)) + typical_d);
          sum.dsink += term * term;
        }
      }
      scatter(part.dq, s.q, head, result.gradients.dq);
      scatter(part.d, s.q, head, result.d);
    }
    scatter(dk, s.k, key_head, result.gradients.dk);
    scatter(dv, s.k, key_head, result.gradients.dv);
  });

  TermSquares total;
  for (const TermSquares& t : terms) {
    total.dq += t.dq;
    total.dk += t.dk;
    total.dv += t.dv;
    total.dbias += t.dbias;
    total.dsink += t.dsink;
  }
  sum_dsink(dsink, result.gradients);
  result.dq_terms = std::sqrt(total.dq);
  result.dk_terms = std::sqrt(total.dk);
  result.dv_terms = std::sqrt(total.dv);
  result.dbias_terms = std::sqrt(total.dbias);
  result.dsink_terms = std::sqrt(total.dsink);
  return result;
}

Gradients rounded_backward(const AttentionInputs& in, const ForwardResult& forward) {
  ForwardResult rounded = forward;
  for (double& x : rounded.o.data) x = round_to(in.problem.dtype, x);
  Gradients result = zero_gradients(in);
  std::vector<float> dsink(static_cast<std::size_t>(in.problem.batch * in.problem.nhead_q));
  const std::int64_t ratio = in.problem.nhead_q / std::max<std::int64_t>(in.problem.nhead_k, 1);
  for_each_key_head(in, [&](const Sequence& s, std::int64_t key_head, std::int64_t) {
    const auto k = gather<float>(in.k, s.k, key_head);
    const auto v = gather<float>(in.v, s.k, key_head);
    Matrix<float> dk(k.rows, k.columns);
    Matrix<float> dv(v.rows, v.columns);
    for (std::int64_t head = key_head * ratio; head < (key_head + 1) * ratio; ++head) {
      BackwardHead<float> part(in, rounded, s, head);
      part.operand_type = in.problem.dtype;
      part.run(k, v, dk, dv, [&](const Pair<float>& pair) {
        if (!in.problem.has_dbias) return;
        double& element = dbias_row(result.dbias, s, head, pair.i)[pair.j];
        element = static_cast<double>(static_cast<float>(element) + pair.ds);
      });
      scatter(part.dq, s.q, head, result.dq);
      dsink[static_cast<std::size_t>(s.index * in.problem.nhead_q + head)] = part.dsink;
    }
    scatter(dk, s.k, key_head, result.dk);
    scatter(dv, s.k, key_head, result.dv);
  });
  sum_dsink(dsink, result);
  for (DenseTensor* tensor : {&result.dq, &result.dk, &result.dv, &result.dbias}) {
    for (double& x : tensor->data) x = round_to(in.problem.dtype, x);
  }
  return result;
}

std::int64_t visible_pairs(const Problem& problem, const HostLengths& lengths) {
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t seqlen_q = place_of(problem, lengths.q, problem.max_seqlen_q, b).length;
    const std::int64_t seqlen_k = place_of(problem, lengths.k, problem.max_seqlen_k, b).length;
    if (problem.mask.is_none()) {
      pairs += seqlen_q * seqlen_k;
      continue;
    }
    for (std::int64_t i = 0; i < seqlen_q; ++i) {
      for (std::int64_t j = 0; j < seqlen_k; ++j) pairs += is_visible(problem.mask, seqlen_q, seqlen_k, i, j) ? 1 : 0;
    }
  }
  return pairs * problem.nhead_q;
}

}  // namespace fmhax::verification
