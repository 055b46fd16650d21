#include "laid_out_call.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>

namespace fmhax::cpu::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kRowStrideOfScalars = 3;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void run_blocks(std::int64_t blocks, int threads, const std::function<void(Block)>& body) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::jthread> pool;
  pool.reserve(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (std::int64_t i = next++; i < blocks; i = next++) body({i, blocks});
    });
  }
}

}  // namespace

LaidOutCall::LaidOutCall(CallSpec spec, std::uint32_t seed) : spec_(std::move(spec)) {
  Problem& p = spec_.problem;
  p.batch = static_cast<std::int64_t>(spec_.lengths.size());
  seqstart_q = seqstart_k = cu_seqlen_q = cu_seqlen_k = {0};
  for (Lengths& l : spec_.lengths) {
    if (l.logical_q < 0) l.logical_q = l.q;
    if (l.logical_k < 0) l.logical_k = l.k;
    p.max_seqlen_q = std::max<std::int64_t>(p.max_seqlen_q, l.q);
    p.max_seqlen_k = std::max<std::int64_t>(p.max_seqlen_k, l.k);
    seqstart_q.push_back(seqstart_q.back() + l.q);
    seqstart_k.push_back(seqstart_k.back() + l.k);
    seqlen_q.push_back(l.logical_q);
    seqlen_k.push_back(l.logical_k);
    cu_seqlen_q.push_back(cu_seqlen_q.back() + l.logical_q);
    cu_seqlen_k.push_back(cu_seqlen_k.back() + l.logical_k);
  }
  if (p.is_group_mode) {
    p.total_q = seqstart_q.back() + spec_.spare_rows;
    p.total_k = seqstart_k.back() + spec_.spare_rows;
  }
  const std::int64_t batch = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows_of_q = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  const std::int64_t rows_of_k = p.is_group_mode ? p.total_k : p.max_seqlen_k;
  q_ = dq_ = Tensor(p.dtype, batch, rows_of_q, p.nhead_q, p.hdim_q);
  k_ = dk_ = Tensor(p.dtype, batch, rows_of_k, p.nhead_k, p.hdim_q);
  v_ = dv_ = Tensor(p.dtype, batch, rows_of_k, p.nhead_k, p.hdim_v);
  o_ = o_out_ = dout_ = Tensor(p.dtype, batch, rows_of_q, p.nhead_q, p.hdim_v);
  const auto scalars = static_cast<std::size_t>(batch * rows_of_q * p.nhead_q);
  lse_.assign(scalars * kRowStrideOfScalars, std::numeric_limits<float>::quiet_NaN());
  d_ = lse_out_ = lse_;
  const auto q_rows = static_cast<std::size_t>(rows_q(p)), k_rows = static_cast<std::size_t>(rows_k(p));
  const auto heads_q = static_cast<std::size_t>(p.nhead_q), heads_k = static_cast<std::size_t>(p.nhead_k);
  want_dq_.assign(q_rows * heads_q * static_cast<std::size_t>(p.hdim_q), 0.0);
  want_o_.assign(q_rows * heads_q * static_cast<std::size_t>(p.hdim_v), 0.0);
  want_lse_.assign(q_rows * heads_q, -kInfinity);
  want_dk_.assign(k_rows * heads_k * static_cast<std::size_t>(p.hdim_q), 0.0);
  want_dv_.assign(k_rows * heads_k * static_cast<std::size_t>(p.hdim_v), 0.0);
  is_seen_q_.assign(q_rows * heads_q, 0);
  is_seen_k_.assign(k_rows * heads_k, 0);
  fill_inputs(seed);
  for (std::size_t i = 0; i < spec_.lengths.size(); ++i) compute_sequence(i);
  lay_out_workspace();
}

LaidOutCall::Place LaidOutCall::place(Side side, std::size_t i) const {
  const Lengths& l = spec_.lengths[i];
  const bool is_group = spec_.problem.is_group_mode;
  const std::int64_t start = (side == Side::q ? seqstart_q : seqstart_k)[i];
  return {is_group ? 0 : static_cast<std::int64_t>(i), is_group ? start : 0, side == Side::q ? l.q : l.k,
          side == Side::q ? l.logical_q : l.logical_k};
}

std::size_t LaidOutCall::index(Side side, std::int64_t batch, std::int64_t row, std::int64_t head,
                               std::int64_t heads) const {
  const Problem& p = spec_.problem;
  const std::int64_t rows = p.is_group_mode ? 0 : (side == Side::q ? p.max_seqlen_q : p.max_seqlen_k);
  return static_cast<std::size_t>((batch * rows + row) * heads + head);
}

void LaidOutCall::fill_inputs(std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  const Problem& p = spec_.problem;
  for (Tensor* t : {&q_, &k_, &v_, &o_, &dout_}) t->fill(kNan);
  const auto fill_real = [&](Tensor& t, Side side, std::int64_t heads, std::int64_t hdim, double shift) {
    for (std::size_t i = 0; i < spec_.lengths.size(); ++i) {
      const Place at = place(side, i);
      for (std::int64_t r = 0; r < at.logical; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          for (std::int64_t d = 0; d < hdim; ++d) t.set(at.batch, at.row + r, h, d, normal(generator));
          if (shift != 0.0) t.set(at.batch, at.row + r, h, 0, shift);
        }
      }
    }
  };
  // A constant first coordinate of q and k adds the same to all logits.
  const double shift = std::sqrt(std::abs(spec_.logit_shift) * std::sqrt(static_cast<double>(p.hdim_q)));
  fill_real(q_, Side::q, p.nhead_q, p.hdim_q, shift);
  fill_real(k_, Side::k, p.nhead_k, p.hdim_q, spec_.logit_shift < 0 ? -shift : shift);
  fill_real(v_, Side::k, p.nhead_k, p.hdim_v, 0.0);
  if (spec_.has_expanded_dout) {
    dout_.expand(0.5);
  } else {
    fill_real(dout_, Side::q, p.nhead_q, p.hdim_v, 0.0);
  }
}

namespace {

/// Rows of one head of one sequence as doubles.
class Matrix {
 public:
  Matrix(const Tensor& t, std::int64_t batch, std::int64_t row, std::int64_t rows, std::int64_t head, std::int64_t hdim)
      : hdim_(static_cast<std::size_t>(hdim)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t d = 0; d < hdim; ++d) values_.push_back(t.get(batch, row + r, head, d));
    }
  }
  const double* operator[](std::size_t row) const { return values_.data() + row * hdim_; }

 private:
  std::size_t hdim_;
  std::vector<double> values_;
};

double dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double factor, const double* from, std::int64_t size, double* to) {
  for (std::int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

}  // namespace

void LaidOutCall::compute_sequence(std::size_t i) {
  const Problem& p = spec_.problem;
  const Place at_q = place(Side::q, i), at_k = place(Side::k, i);
  const double scale = params().scale;
  const auto hdim_q = static_cast<std::size_t>(p.hdim_q), hdim_v = static_cast<std::size_t>(p.hdim_v);
  const std::int64_t offset = p.mask.alignment == MaskAlignment::bottom_right ? at_k.logical - at_q.logical : 0;
  for (std::int64_t h = 0; h < p.nhead_q; ++h) {
    const std::int64_t hk = h / (p.nhead_q / p.nhead_k);
    const Matrix q(q_, at_q.batch, at_q.row, at_q.logical, h, p.hdim_q);
    const Matrix k(k_, at_k.batch, at_k.row, at_k.logical, hk, p.hdim_q);
    const Matrix v(v_, at_k.batch, at_k.row, at_k.logical, hk, p.hdim_v);
    const Matrix dout(dout_, at_q.batch, at_q.row, at_q.logical, h, p.hdim_v);
    for (std::int64_t r = 0; r < at_q.logical; ++r) {
      const auto local = static_cast<std::size_t>(r);
      const std::size_t row = index(Side::q, at_q.batch, at_q.row + r, h, p.nhead_q);
      std::vector<std::size_t> visible;
      for (std::int64_t c = 0; c < at_k.logical; ++c) {
        const bool left = p.mask.window_left < 0 || c >= r + offset - p.mask.window_left;
        const bool right = p.mask.window_right < 0 || c <= r + offset + p.mask.window_right;
        if (left && right) visible.push_back(static_cast<std::size_t>(c));
      }
      float& lse = lse_[row * kRowStrideOfScalars];
      lse = spec_.unseen_lse;
      for (std::int64_t d = 0; d < p.hdim_v; ++d) o_.set(at_q.batch, at_q.row + r, h, d, 0.0);
      if (visible.empty()) continue;

      std::vector<double> s;
      s.reserve(visible.size());
      for (const std::size_t c : visible) s.push_back(scale * dot(q[local], k[c], p.hdim_q));
      const double maximum = *std::max_element(s.begin(), s.end());
      double sum = 0.0;
      for (const double x : s) sum += std::exp(x - maximum);
      want_lse_[row] = maximum + std::log(sum);
      lse = static_cast<float>(want_lse_[row]);
      double* o = want_o_.data() + row * hdim_v;
      for (std::size_t n = 0; n < visible.size(); ++n) {
        add_scaled(std::exp(s[n] - want_lse_[row]), v[visible[n]], p.hdim_v, o);
      }
      for (std::int64_t d = 0; d < p.hdim_v; ++d) o_.set(at_q.batch, at_q.row + r, h, d, o[d]);
      const double row_d = dot(Matrix(o_, at_q.batch, at_q.row + r, 1, h, p.hdim_v)[0], dout[local], p.hdim_v);
      is_seen_q_[row] = 1;
      for (std::size_t n = 0; n < visible.size(); ++n) {
        const std::size_t c = visible[n];
        const auto key = at_k.row + static_cast<std::int64_t>(c);
        const std::size_t key_row = index(Side::k, at_k.batch, key, hk, p.nhead_k);
        const double probability = std::exp(s[n] - want_lse_[row]);
        const double ds = probability * (dot(dout[local], v[c], p.hdim_v) - row_d);
        is_seen_k_[key_row] = 1;
        add_scaled(scale * ds, k[c], p.hdim_q, want_dq_.data() + row * hdim_q);
        add_scaled(scale * ds, q[local], p.hdim_q, want_dk_.data() + key_row * hdim_q);
        add_scaled(probability, dout[local], p.hdim_v, want_dv_.data() + key_row * hdim_v);
      }
    }
  }
}

void LaidOutCall::lay_out_workspace() {
  const Problem& p = spec_.problem;
  if (spec_.kernels == Kernels::direct) return;
  needs_zero_ = !p.is_deterministic || spec_.kernels == Kernels::persistent || !p.mask.is_none() ||
                p.logical_lengths != LogicalLengths::none;
  nsplits = {1};
  if (spec_.kernels == Kernels::persistent) {
    const std::int64_t per_head = divide_up(p.max_seqlen_k, kN0);
    const std::int64_t per_worker = divide_up(p.batch * p.nhead_k * per_head, spec_.workers);
    const std::int64_t splits = per_head % per_worker == 0   ? per_head / per_worker
                                : per_worker % per_head == 0 ? 1
                                                             : 1 + divide_up(per_head - 1, per_worker);
    nsplits = {static_cast<std::int32_t>(splits)};
  } else if (p.is_deterministic) {
    nsplits.clear();
    for (const Lengths& l : spec_.lengths) nsplits.push_back(static_cast<std::int32_t>(divide_up(l.k, kN0)));
  }
  dq_acc_offsets_ = {0};
  for (std::size_t i = 0; i < spec_.lengths.size(); ++i) {
    const std::int64_t splits = nsplits[nsplits.size() > 1 ? i : 0];
    dq_acc_offsets_.push_back(dq_acc_offsets_.back() + p.nhead_q * splits * spec_.lengths[i].q * p.hdim_q);
  }
  dq_acc_.resize(static_cast<std::size_t>(dq_acc_offsets_.back()) + 1);
}

KernelParams LaidOutCall::params() {
  const Problem& p = spec_.problem;
  KernelParams params;
  params.problem = p;
  params.scale = 1.0F / std::sqrt(static_cast<float>(p.hdim_q));
  params.q = q_.ref();
  params.k = k_.ref();
  params.v = v_.ref();
  params.o = o_.ref();
  params.dout = dout_.ref();
  params.dq = dq_.ref();
  params.dk = dk_.ref();
  params.dv = dv_.ref();
  const std::int64_t row_stride = p.nhead_q * kRowStrideOfScalars;
  params.lse = {lse_.data(), p.max_seqlen_q * row_stride, row_stride, kRowStrideOfScalars};
  params.d = params.lse;
  params.d.data = spec_.kernels == Kernels::direct ? nullptr : d_.data();
  if (p.is_group_mode) {
    params.lengths.seqstart_q = seqstart_q.data();
    params.lengths.seqstart_k = seqstart_k.data();
  }
  if (p.logical_lengths == LogicalLengths::per_sequence) {
    params.lengths.seqlen_q = seqlen_q.data();
    params.lengths.seqlen_k = seqlen_k.data();
  } else if (p.logical_lengths == LogicalLengths::cumulative) {
    params.lengths.cu_seqlen_q = cu_seqlen_q.data();
    params.lengths.cu_seqlen_k = cu_seqlen_k.data();
  }
  if (spec_.kernels != Kernels::direct) {
    params.nsplits = nsplits.data();
    params.dq_acc_offsets = p.is_group_mode ? dq_acc_offsets_.data() : nullptr;
    params.dq_acc = dq_acc_.data();
  }
  params.status = &status;
  return params;
}

void LaidOutCall::poison() {
  for (Tensor* t : {&dq_, &dk_, &dv_}) t->fill(1e4);
  std::fill(d_.begin(), d_.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill(dq_acc_.begin(), dq_acc_.end(), needs_zero_ ? 0.0F : std::numeric_limits<float>::quiet_NaN());
}

void LaidOutCall::run(Isa isa, int threads) {
  const KernelParams call = params();
  const Problem& p = call.problem;
  const TileOps& ops = tile_ops(isa, p.dtype);
  poison();
  if (spec_.kernels == Kernels::direct) {
    run_blocks(std::min<std::int64_t>(backward_direct_jobs(p), 5), threads,
               [&](Block block) { backward_direct(call, ops, block); });
    return;
  }
  run_blocks(dot_do_o_jobs(p), threads, [&](Block block) { dot_do_o(call, ops, block); });
  if (spec_.kernels == Kernels::persistent) {
    run_blocks(spec_.workers, threads, [&](Block block) { backward_persistent(call, ops, block); });
  } else {
    run_blocks(backward_general_jobs(p), threads, [&](Block block) { backward_general(call, ops, block); });
  }
  run_blocks(convert_dq_jobs(p), threads, [&](Block block) { convert_dq(call, ops, block); });
}

void LaidOutCall::run_forward(Isa isa) {
  KernelParams call = params();
  o_out_.fill(1e4);
  std::fill(lse_out_.begin(), lse_out_.end(), 1e4F);
  call.o = o_out_.ref();
  call.lse.data = lse_out_.data();
  run_blocks(forward_jobs(call.problem), 2,
             [&](Block block) { forward(call, tile_ops(isa, call.problem.dtype), block); });
}

double LaidOutCall::error(const Tensor& got, const std::vector<double>& want, Side side, std::int64_t heads,
                          std::int64_t hdim) const {
  const Problem& p = spec_.problem;
  const std::int64_t rows =
      p.is_group_mode ? (side == Side::q ? p.total_q : p.total_k) : (side == Side::q ? p.max_seqlen_q : p.max_seqlen_k);
  double difference = 0.0, norm = 0.0;
  for (std::int64_t b = 0; b < (p.is_group_mode ? 1 : p.batch); ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::size_t row = index(side, b, r, h, heads);
        const std::size_t first = row * static_cast<std::size_t>(hdim);
        const bool is_seen = (side == Side::q ? is_seen_q_ : is_seen_k_)[row] != 0;
        for (std::int64_t d = 0; d < hdim; ++d) {
          const double expected = want[first + static_cast<std::size_t>(d)];
          const double value = got.get(b, r, h, d);
          if (std::isnan(value) || (!is_seen && value != 0.0)) return kInfinity;
          difference += (value - expected) * (value - expected);
          norm += expected * expected;
        }
      }
    }
  }
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

double LaidOutCall::worst_error() const { return std::max({dq_error(), dk_error(), dv_error()}); }

double LaidOutCall::lse_error() const {
  double worst = 0.0;
  for (std::size_t i = 0; i < want_lse_.size(); ++i) {
    const double value = lse_out_[i * kRowStrideOfScalars];
    if (std::isinf(want_lse_[i]) ? value != want_lse_[i] : std::isnan(value)) return kInfinity;
    if (!std::isinf(want_lse_[i])) worst = std::max(worst, std::abs(value - want_lse_[i]));
  }
  return worst;
}

bool LaidOutCall::gradients_are_nan() const {
  const std::vector<double> values = gradient_values();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

void LaidOutCall::collect(const Tensor& t, Side side, std::int64_t heads, std::int64_t hdim,
                          std::vector<double>& values) const {
  const Problem& p = spec_.problem;
  const std::int64_t group_rows = side == Side::q ? p.total_q : p.total_k;
  const std::int64_t rows = p.is_group_mode ? group_rows : (side == Side::q ? p.max_seqlen_q : p.max_seqlen_k);
  for (std::int64_t b = 0; b < (p.is_group_mode ? 1 : p.batch); ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t d = 0; d < hdim; ++d) values.push_back(t.get(b, r, h, d));
      }
    }
  }
}

bool LaidOutCall::outputs_are_nan() const {
  std::vector<double> values;
  collect(o_out_, Side::q, spec_.problem.nhead_q, spec_.problem.hdim_v, values);
  for (std::size_t i = 0; i < want_lse_.size(); ++i) values.push_back(lse_out_[i * kRowStrideOfScalars]);
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

std::vector<double> LaidOutCall::gradient_values() const {
  const Problem& p = spec_.problem;
  std::vector<double> values;
  collect(dq_, Side::q, p.nhead_q, p.hdim_q, values);
  collect(dk_, Side::k, p.nhead_k, p.hdim_q, values);
  collect(dv_, Side::k, p.nhead_k, p.hdim_v, values);
  return values;
}

}  // namespace fmhax::cpu::test
