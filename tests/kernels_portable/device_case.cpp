#include "device_case.hpp"

#include <numeric>
#include <utility>

#include "verification/random_problem.hpp"

namespace fmhax::portable::test {

using verification::Case;

Case random_case(std::uint64_t index, double budget) {
  Case c = verification::random_problem(4, index, budget);
  verification::Random random(5, index);
  Problem& p = c.problem;
  if (p.dtype == DataType::fp32) p.dtype = random.pick({DataType::fp16, DataType::bf16});
  p.bias = BiasKind::none;
  p.has_dbias = p.has_dropout = p.stores_random_values = p.has_sink = p.has_softcap = p.has_dlse = false;
  c.features = {};
  for (verification::Layout* layout : {&c.layouts.q, &c.layouts.k, &c.layouts.v, &c.layouts.o, &c.layouts.dout,
                                       &c.layouts.dq, &c.layouts.dk, &c.layouts.dv}) {
    if (random.chance(15)) layout->extra_columns = random.integer(1, 7);
  }
  return c;
}

Case featured_case(std::uint64_t index, double budget) {
  Case c = random_case(index, budget);
  Problem& p = c.problem;
  verification::FeatureChoices& f = c.features;
  verification::Random random(13, index);
  const auto layout = [&random] {
    verification::Layout result;
    result.order = random.pick({verification::Order::bshd, verification::Order::bhsd});
    result.extra_columns = random.chance(50) ? 0 : random.integer(1, 20);
    return result;
  };
  p.bias = random.pick({BiasKind::none, BiasKind::elementwise, BiasKind::elementwise, BiasKind::alibi});
  p.alibi_form = random.pick({AlibiForm::distance_top_left, AlibiForm::distance_bottom_right, AlibiForm::column});
  p.has_dbias = p.bias == BiasKind::elementwise && random.chance(80);
  p.has_dropout = random.chance(50);
  p.stores_random_values = p.has_dropout && random.chance(60);
  p.has_sink = random.chance(40);
  p.has_softcap = random.chance(40);
  p.has_dlse = random.chance(40);
  if (p.bias == BiasKind::elementwise) {
    f.bias_expands_batch = !p.is_group_mode && random.chance(40);
    f.bias_expands_nhead = random.chance(40);
    f.bias = layout();
  }
  if (p.has_dbias) {
    f.dbias_sums_batch = !p.is_group_mode && random.chance(40);
    f.dbias_sums_nhead = random.chance(40);
    f.dbias = layout();
  }
  f.alibi_per_sequence = p.bias == BiasKind::alibi && random.chance(50);
  if (p.has_softcap) f.softcap = static_cast<float>(random.integer(1, 40));
  if (p.has_dropout) {
    f.dropout_probability = static_cast<float>(0.9 * random.uniform());
    f.dropout_from_memory = random.chance(50);
  }
  if (p.stores_random_values) f.random_values = layout();
  return c;
}

WorkspaceSpec spec_of(const Problem& problem, std::int64_t kN0) {
  WorkspaceSpec spec;
  spec.kN0 = kN0;
  spec.is_group_mode = problem.is_group_mode;
  spec.is_deterministic = problem.is_deterministic;
  spec.needs_zero_dq_acc = true;
  return spec;
}

CaseLengths::Array::Array(std::vector<std::int32_t> entries) : host(std::move(entries)), device(host.size() * 4) {
  device.upload(bytes_of(host));
}

namespace {

std::vector<std::int32_t> logical_entries(const Problem& p, const std::vector<std::int32_t>& logical) {
  if (p.logical_lengths != LogicalLengths::cumulative) return logical;
  std::vector<std::int32_t> cumulative(logical.size() + 1);
  std::partial_sum(logical.begin(), logical.end(), cumulative.begin() + 1);
  return cumulative;
}

}  // namespace

CaseLengths::CaseLengths(const Case& c)
    : problem_(c.problem),
      seqstart_q_(c.lengths.q.seqstart),
      seqstart_k_(c.lengths.k.seqstart),
      logical_q_(logical_entries(c.problem, c.lengths.q.logical)),
      logical_k_(logical_entries(c.problem, c.lengths.k.logical)) {}

SequenceLengths CaseLengths::pointers(bool on_device) const {
  const auto of = [on_device](const Array& array) {
    return on_device ? static_cast<const std::int32_t*>(array.device.data()) : array.host.data();
  };
  SequenceLengths lengths;
  if (problem_.is_group_mode) {
    lengths.seqstart_q = of(seqstart_q_);
    lengths.seqstart_k = of(seqstart_k_);
  }
  if (problem_.logical_lengths == LogicalLengths::per_sequence) {
    lengths.seqlen_q = of(logical_q_);
    lengths.seqlen_k = of(logical_k_);
  } else if (problem_.logical_lengths == LogicalLengths::cumulative) {
    lengths.cu_seqlen_q = of(logical_q_);
    lengths.cu_seqlen_k = of(logical_k_);
  }
  return lengths;
}

SequenceLengths CaseLengths::host() const { return pointers(false); }
SequenceLengths CaseLengths::device() const { return pointers(true); }

std::vector<verification::SequencePlace> real_rows(const Case& c, SequenceSide side) {
  const bool is_q = side == SequenceSide::q;
  std::vector<verification::SequencePlace> places;
  for (std::int64_t i = 0; i < c.problem.batch; ++i) {
    places.push_back(verification::place_of(c.problem, is_q ? c.lengths.q : c.lengths.k,
                                            is_q ? c.problem.max_seqlen_q : c.problem.max_seqlen_k, i));
  }
  return places;
}

TensorRef ref_of(const verification::DeviceTensor& tensor) {
  const TensorView& view = tensor.view();
  return {view.data, view.stride_batch, view.stride_seqlen, view.stride_nhead};
}

TensorRef broadcast_ref_of(const TensorView& view) {
  return {view.data, view.batch == 1 ? 0 : view.stride_batch, view.stride_seqlen,
          view.nhead == 1 ? 0 : view.stride_nhead};
}

}  // namespace fmhax::portable::test
