#include "plain_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/workspace.hpp"
#include "plain_provider.hpp"

namespace plain {
namespace {

using fmhax::IndexRange;
using fmhax::KernelParams;
using fmhax::Problem;
using fmhax::SequenceRange;
using fmhax::SequenceSide;
using fmhax::TensorRef;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Row `row` of one sequence: batch mode has a batch dimension, group mode counts on from the sequence's start.
float* row_of(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, const SequenceRange& range,
              std::int64_t row, std::int64_t head) {
  const std::int64_t batch = problem.is_group_mode ? 0 : sequence;
  return static_cast<float*>(tensor.data) + batch * tensor.stride_batch + (range.start + row) * tensor.stride_seqlen +
         head * tensor.stride_nhead;
}

/// Rows [rows.begin, rows.end) of the whole tensor, all sequences counted through, all heads.
void fill_rows(float value, const TensorRef& tensor, const Problem& problem, std::int64_t seqlen, IndexRange rows,
               std::int64_t heads, std::int64_t hdim) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t batch = problem.is_group_mode ? 0 : row / seqlen;
    const std::int64_t within = problem.is_group_mode ? row : row % seqlen;
    for (std::int64_t head = 0; head < heads; ++head) {
      std::fill_n(row_of(tensor, problem, batch, {}, within, head), hdim, value);
    }
  }
}

float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(float factor, const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// The metadata say that the call's lengths were refused on the way: its gradients are NaN.
bool is_refused(const KernelParams& params) { return params.nsplits[0] == fmhax::kInvalidCall; }

/// One sequence's part of dq_acc: [nhead_q, nsplits, seqlen_q, hdim_q]. Both numbers come from the workspace's head.
struct SplitRows {
  float* data = nullptr;
  std::int64_t nsplits = 0;
  std::int64_t seqlen_q = 0;
  std::int64_t hdim_q = 0;

  SplitRows(const KernelParams& params, std::int64_t sequence, const SequenceRange& q)
      : nsplits(params.nsplits[params.problem.is_group_mode ? sequence : 0]),
        seqlen_q(q.physical),
        hdim_q(params.problem.hdim_q) {
    const std::int64_t offset = params.problem.is_group_mode
                                    ? params.dq_acc_offsets[sequence]
                                    : sequence * params.problem.nhead_q * nsplits * seqlen_q * hdim_q;
    data = static_cast<float*>(params.dq_acc) + offset;
  }

  float* row(std::int64_t head, std::int64_t split, std::int64_t row) const {
    return data + ((head * nsplits + split) * seqlen_q + row) * hdim_q;
  }
};

std::int64_t tiles_per_sequence(const Problem& p) { return (p.max_seqlen_k + kKeysPerTile - 1) / kKeysPerTile; }

}  // namespace

std::int64_t forward_blocks(const Problem& problem) { return problem.batch * problem.nhead_q + 1; }

void forward(const KernelParams& params, Block block) {
  const Problem& p = params.problem;
  const bool is_last = block.index == block.count - 1;
  // There are no metadata in a forward call, so the kernel checks the lengths itself.
  if (fmhax::check_lengths(p, params.lengths).code != fmhax::StatusCode::ok) {
    if (!is_last) return;
    fill_rows(kNan, params.o, p, p.max_seqlen_q, {0, fmhax::rows_q(p)}, p.nhead_q, p.hdim_v);
    fill_rows(kNan, params.lse, p, p.max_seqlen_q, {0, fmhax::rows_q(p)}, p.nhead_q, 1);
    return;
  }
  if (is_last) {
    const IndexRange tail = fmhax::tail_rows(p, params.lengths, SequenceSide::q);
    fill_rows(0, params.o, p, p.max_seqlen_q, tail, p.nhead_q, p.hdim_v);
    fill_rows(-kInfinity, params.lse, p, p.max_seqlen_q, tail, p.nhead_q, 1);
    return;
  }
  const std::int64_t sequence = block.index / p.nhead_q;
  const std::int64_t head = block.index % p.nhead_q;
  const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
  const SequenceRange q = fmhax::sequence_range(p, params.lengths, SequenceSide::q, sequence);
  const SequenceRange k = fmhax::sequence_range(p, params.lengths, SequenceSide::k, sequence);
  for (std::int64_t row = 0; row < q.physical; ++row) {
    float* o = row_of(params.o, p, sequence, q, row, head);
    float* lse = row_of(params.lse, p, sequence, q, row, head);
    const float* q_row = row_of(params.q, p, sequence, q, row, head);
    const IndexRange keys = row < q.logical ? fmhax::visible_keys(p.mask, q.logical, k.logical, row) : IndexRange{};
    std::fill_n(o, p.hdim_v, 0.0F);
    float largest = -kInfinity;
    float sum = 0;
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const float s = params.scale * dot(q_row, row_of(params.k, p, sequence, k, key, key_head), p.hdim_q);
      if (s > largest) {
        const float shrink = std::exp(largest - s);  // what was summed up so far is relative to the old maximum
        sum *= shrink;
        for (std::int64_t d = 0; d < p.hdim_v; ++d) o[d] *= shrink;
        largest = s;
      }
      const float weight = std::exp(s - largest);
      sum += weight;
      add_scaled(weight, row_of(params.v, p, sequence, k, key, key_head), o, p.hdim_v);
    }
    for (std::int64_t d = 0; d < p.hdim_v && sum > 0; ++d) o[d] /= sum;
    *lse = sum > 0 ? largest + std::log(sum) : -kInfinity;
  }
}

// Runs beside the preparation of the workspace, so it looks at neither metadata nor lengths: every row, whatever it
// holds.
void dot_do_o(const KernelParams& params, Block block) {
  const Problem& p = params.problem;
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const std::int64_t seqlen = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  for (std::int64_t i = block.index; i < batches * seqlen; i += block.count) {
    const std::int64_t batch = i / seqlen;
    const std::int64_t row = i % seqlen;
    for (std::int64_t head = 0; head < p.nhead_q; ++head) {
      *row_of(params.d, p, batch, {}, row, head) =
          dot(row_of(params.dout, p, batch, {}, row, head), row_of(params.o, p, batch, {}, row, head), p.hdim_v);
    }
  }
}

// The lengths change between replays, the launch does not: there are blocks for the longest sequences of the capacity,
// and those beyond the tiles of theirs have nothing to do.
std::int64_t dq_dk_dv_blocks(const Problem& problem) {
  return problem.batch * problem.nhead_k * tiles_per_sequence(problem) + 1;
}

void dq_dk_dv(const KernelParams& params, Block block) {
  const Problem& p = params.problem;
  const bool is_last = block.index == block.count - 1;
  if (is_refused(params) && !is_last) return;
  if (is_last) {
    const float value = is_refused(params) ? kNan : 0.0F;
    const IndexRange rows =
        is_refused(params) ? IndexRange{0, fmhax::rows_k(p)} : fmhax::tail_rows(p, params.lengths, SequenceSide::k);
    fill_rows(value, params.dk, p, p.max_seqlen_k, rows, p.nhead_k, p.hdim_q);
    fill_rows(value, params.dv, p, p.max_seqlen_k, rows, p.nhead_k, p.hdim_v);
    return;
  }
  const std::int64_t tile = block.index % tiles_per_sequence(p);
  const std::int64_t key_head = block.index / tiles_per_sequence(p) % p.nhead_k;
  const std::int64_t sequence = block.index / tiles_per_sequence(p) / p.nhead_k;
  const SequenceRange q = fmhax::sequence_range(p, params.lengths, SequenceSide::q, sequence);
  const SequenceRange k = fmhax::sequence_range(p, params.lengths, SequenceSide::k, sequence);
  const std::int64_t first_key = tile * kKeysPerTile;
  if (first_key >= k.physical) return;

  // Padding keys get zeros too.
  for (std::int64_t key = first_key; key < std::min(first_key + kKeysPerTile, k.physical); ++key) {
    std::fill_n(row_of(params.dk, p, sequence, k, key, key_head), p.hdim_q, 0.0F);
    std::fill_n(row_of(params.dv, p, sequence, k, key, key_head), p.hdim_v, 0.0F);
  }
  const SplitRows dq_acc(params, sequence, q);
  const std::int64_t heads_per_key_head = p.nhead_q / p.nhead_k;
  for (std::int64_t i = 0; i < heads_per_key_head; ++i) {
    const std::int64_t head = key_head * heads_per_key_head + i;
    for (std::int64_t row = 0; row < q.logical; ++row) {
      // Every row of the split is written, also where the mask hides the whole tile: dq_acc needs no zeroing.
      float* dq_row = dq_acc.row(head, tile, row);
      std::fill_n(dq_row, p.hdim_q, 0.0F);
      const IndexRange visible = fmhax::visible_keys(p.mask, q.logical, k.logical, row);
      const float* q_row = row_of(params.q, p, sequence, q, row, head);
      const float* dout_row = row_of(params.dout, p, sequence, q, row, head);
      const float lse = *row_of(params.lse, p, sequence, q, row, head);
      const float d = *row_of(params.d, p, sequence, q, row, head);
      const std::int64_t last_key = std::min(visible.end, first_key + kKeysPerTile);
      for (std::int64_t key = std::max(visible.begin, first_key); key < last_key; ++key) {
        const float* k_row = row_of(params.k, p, sequence, k, key, key_head);
        const float* v_row = row_of(params.v, p, sequence, k, key, key_head);
        const float probability = std::exp(params.scale * dot(q_row, k_row, p.hdim_q) - lse);
        const float ds = probability * (dot(dout_row, v_row, p.hdim_v) - d);
        add_scaled(ds, k_row, dq_row, p.hdim_q);
        add_scaled(params.scale * ds, q_row, row_of(params.dk, p, sequence, k, key, key_head), p.hdim_q);
        add_scaled(probability, dout_row, row_of(params.dv, p, sequence, k, key, key_head), p.hdim_v);
      }
    }
  }
}

std::int64_t convert_dq_blocks(const Problem& problem) { return problem.batch * problem.nhead_q + 1; }

void convert_dq(const KernelParams& params, Block block) {
  const Problem& p = params.problem;
  const bool is_last = block.index == block.count - 1;
  if (is_refused(params) && !is_last) return;
  if (is_last) {
    const IndexRange rows =
        is_refused(params) ? IndexRange{0, fmhax::rows_q(p)} : fmhax::tail_rows(p, params.lengths, SequenceSide::q);
    fill_rows(is_refused(params) ? kNan : 0.0F, params.dq, p, p.max_seqlen_q, rows, p.nhead_q, p.hdim_q);
    return;
  }
  const std::int64_t sequence = block.index / p.nhead_q;
  const std::int64_t head = block.index % p.nhead_q;
  const SequenceRange q = fmhax::sequence_range(p, params.lengths, SequenceSide::q, sequence);
  const SplitRows dq_acc(params, sequence, q);
  for (std::int64_t row = 0; row < q.physical; ++row) {
    float* dq = row_of(params.dq, p, sequence, q, row, head);
    std::fill_n(dq, p.hdim_q, 0.0F);
    const std::int64_t nsplits = row < q.logical ? dq_acc.nsplits : 0;
    for (std::int64_t split = 0; split < nsplits; ++split) {
      add_scaled(params.scale, dq_acc.row(head, split, row), dq, p.hdim_q);
    }
  }
}

}  // namespace plain
