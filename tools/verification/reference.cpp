#include "verification/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "verification/half.hpp"
#include "verification/parallel.hpp"

namespace fmhax::verification {
namespace {

/// One head of one sequence as a contiguous [rows, columns] matrix.
template <typename Real>
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Real> data;

  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), data(static_cast<std::size_t>(row_count * column_count)) {}
  Real* row(std::int64_t i) { return data.data() + i * columns; }
  const Real* row(std::int64_t i) const { return data.data() + i * columns; }
};

template <typename Real>
Matrix<Real> gather(const DenseTensor& tensor, const SequencePlace& place, std::int64_t head) {
  Matrix<Real> m(place.length, tensor.hdim);
  for (std::int64_t i = 0; i < m.rows; ++i) {
    const double* from = tensor.row(place.batch_index, place.start + i, head);
    std::transform(from, from + m.columns, m.row(i), [](double x) { return static_cast<Real>(x); });
  }
  return m;
}

template <typename Real>
void scatter(const Matrix<Real>& m, const SequencePlace& place, std::int64_t head, DenseTensor& tensor) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    std::copy(m.row(i), m.row(i) + m.columns, tensor.row(place.batch_index, place.start + i, head));
  }
}

template <typename Real>
Real dot(const Real* a, const Real* b, std::int64_t count) {
  // Eight sums side by side keep the processor's adders busy; head dimensions are multiples of 8.
  constexpr std::int64_t kLanes = 8;
  Real partial[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  }
  Real sum = 0;
  for (const Real p : partial) sum += p;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename Real>
void add_scaled(Real* to, Real factor, const Real* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

bool is_visible(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t i, std::int64_t j) {
  const std::int64_t diagonal = mask.alignment == MaskAlignment::bottom_right ? i + (seqlen_k - seqlen_q) : i;
  if (mask.window_left >= 0 && j < diagonal - mask.window_left) return false;
  if (mask.window_right >= 0 && j > diagonal + mask.window_right) return false;
  return true;
}

/// Both sides of one sequence.
struct Sequence {
  SequencePlace q;
  SequencePlace k;
};

Sequence sequence_of(const AttentionInputs& in, std::int64_t i) {
  return {place_of(in.problem, in.lengths.q, in.problem.max_seqlen_q, i),
          place_of(in.problem, in.lengths.k, in.problem.max_seqlen_k, i)};
}

int threads_for(const AttentionInputs& in) {
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
  Matrix<double> o(s.q.length, v.columns);
  std::vector<double> logits(static_cast<std::size_t>(s.k.length));
  for (std::int64_t i = 0; i < q.rows; ++i) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < k.rows; ++j) {
      auto& logit = logits[static_cast<std::size_t>(j)];
      logit = is_visible(in.problem.mask, q.rows, k.rows, i, j) ? in.scale * dot(q.row(i), k.row(j), q.columns)
                                                                : -std::numeric_limits<double>::infinity();
      largest = std::max(largest, logit);
    }
    if (std::isinf(largest)) continue;
    double sum = 0;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const double weight = std::exp(logits[static_cast<std::size_t>(j)] - largest);
      sum += weight;
      if (weight != 0) add_scaled(o.row(i), weight, v.row(j), v.columns);
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
};

/// The gradients of one query head, dk and dv added to those of its key head.
template <typename Real>
struct BackwardHead {
  const Mask& mask;
  Real scale;
  Matrix<Real> q, o, dout, lse;
  Matrix<Real> dq, d;

  BackwardHead(const AttentionInputs& in, const ForwardResult& forward, const Sequence& s, std::int64_t head)
      : mask(in.problem.mask),
        scale(static_cast<Real>(in.scale)),
        q(gather<Real>(in.q, s.q, head)),
        o(gather<Real>(forward.o, s.q, head)),
        dout(gather<Real>(in.dout, s.q, head)),
        lse(gather<Real>(forward.lse, s.q, head)),
        dq(s.q.length, in.q.hdim),
        d(s.q.length, 1) {}

  /// Calls visit(i, j, p, dp) for each visible pair.
  template <typename Visit>
  void run(const Matrix<Real>& k, const Matrix<Real>& v, Matrix<Real>& dk, Matrix<Real>& dv, const Visit& visit) {
    for (std::int64_t i = 0; i < q.rows; ++i) {
      *d.row(i) = dot(dout.row(i), o.row(i), o.columns);
      for (std::int64_t j = 0; j < k.rows; ++j) {
        if (!is_visible(mask, q.rows, k.rows, i, j)) continue;
        const Real p = std::exp(scale * dot(q.row(i), k.row(j), q.columns) - *lse.row(i));
        const Real dp = dot(dout.row(i), v.row(j), v.columns);
        const Real ds = p * (dp - *d.row(i));
        add_scaled(dv.row(j), p, dout.row(i), dv.columns);
        add_scaled(dq.row(i), scale * ds, k.row(j), dq.columns);
        add_scaled(dk.row(j), scale * ds, q.row(i), dk.columns);
        visit(i, j, p, dp);
      }
    }
  }
};

std::vector<double> squared_norms(const Matrix<double>& m) {
  std::vector<double> norms(static_cast<std::size_t>(m.rows));
  for (std::int64_t i = 0; i < m.rows; ++i) norms[static_cast<std::size_t>(i)] = dot(m.row(i), m.row(i), m.columns);
  return norms;
}

Gradients zero_gradients(const AttentionInputs& in) {
  return {DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, in.q.hdim),
          DenseTensor(in.k.batch, in.k.seqlen, in.k.nhead, in.k.hdim),
          DenseTensor(in.v.batch, in.v.seqlen, in.v.nhead, in.v.hdim)};
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
      part.run(k, v, dk, dv, [&](std::int64_t i, std::int64_t j, double p, double dp) {
        const double typical_dp = std::sqrt(dout_squared[static_cast<std::size_t>(i)] *
                                            v_squared[static_cast<std::size_t>(j)] / static_cast<double>(v.columns));
        const double ds = in.scale * p * (std::fabs(dp) + std::fabs(*part.d.row(i)) + typical_dp);
        sum.dq += ds * ds * k_squared[static_cast<std::size_t>(j)];
        sum.dk += ds * ds * q_squared[static_cast<std::size_t>(i)];
        sum.dv += p * p * dout_squared[static_cast<std::size_t>(i)];
      });
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
  }
  result.dq_terms = std::sqrt(total.dq);
  result.dk_terms = std::sqrt(total.dk);
  result.dv_terms = std::sqrt(total.dv);
  return result;
}

Gradients rounded_backward(const AttentionInputs& in, const ForwardResult& forward) {
  ForwardResult rounded = forward;
  for (double& x : rounded.o.data) x = round_to(in.problem.dtype, x);
  Gradients result = zero_gradients(in);
  const std::int64_t ratio = in.problem.nhead_q / std::max<std::int64_t>(in.problem.nhead_k, 1);
  for_each_key_head(in, [&](const Sequence& s, std::int64_t key_head, std::int64_t) {
    const auto k = gather<float>(in.k, s.k, key_head);
    const auto v = gather<float>(in.v, s.k, key_head);
    Matrix<float> dk(k.rows, k.columns);
    Matrix<float> dv(v.rows, v.columns);
    for (std::int64_t head = key_head * ratio; head < (key_head + 1) * ratio; ++head) {
      BackwardHead<float> part(in, rounded, s, head);
      part.run(k, v, dk, dv, [](std::int64_t, std::int64_t, float, float) {});
      scatter(part.dq, s.q, head, result.dq);
    }
    scatter(dk, s.k, key_head, result.dk);
    scatter(dv, s.k, key_head, result.dv);
  });
  for (DenseTensor* tensor : {&result.dq, &result.dk, &result.dv}) {
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
