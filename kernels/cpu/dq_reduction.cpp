// The kernels before and after dq_dk_dv: dot_do_o and convert_dq.
#include <algorithm>

#include "bodies.hpp"
#include "fmhax/contract/workspace.hpp"
#include "geometry.hpp"

namespace fmhax::cpu {

std::int64_t dot_do_o_jobs(const Problem& p) noexcept { return slot_count(p, SequenceSide::q, kM0); }

void dot_do_o(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  // Sequences that overlap would make blocks write the same rows. Nobody reads d in a call that is refused.
  if (check_lengths(p, params.lengths).code != StatusCode::ok) return;
  const std::int64_t jobs = dot_do_o_jobs(p);
  for (std::int64_t job = block.index; job < jobs; job += block.count) {
    const TileSlot slot = find_slot(p, params.lengths, SequenceSide::q, kM0, job);
    const SequenceRange range = sequence_range(p, params.lengths, SequenceSide::q, slot.sequence);
    const IndexRange rows = tile_rows_of(range, slot.tile, kM0).real;
    if (rows.empty()) continue;
    for (std::int64_t head = 0; head < p.nhead_q; ++head) {
      const std::int64_t row = range.start + rows.begin;
      dot_do_o_rows(params, ops, slot.sequence, row, head, rows.end - rows.begin,
                    row_value(params.d, p, slot.sequence, row, head), params.d.stride_seqlen);
    }
  }
}

std::int64_t convert_dq_jobs(const Problem& p) noexcept {
  return std::max(slot_count(p, SequenceSide::q, kM0), rows_q(p) > 0 ? std::int64_t{1} : 0);
}

void convert_dq(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  if (params.nsplits[0] < 0) {
    fill_share(Fill::nan, params.dq, p, SequenceSide::q, {0, rows_q(p)}, p.nhead_q, p.hdim_q, block);
    return;
  }
  const std::int64_t jobs = slot_count(p, SequenceSide::q, kM0);
  for (std::int64_t job = block.index; job < jobs; job += block.count) {
    const TileSlot slot = find_slot(p, params.lengths, SequenceSide::q, kM0, job);
    const SequenceRange range = sequence_range(p, params.lengths, SequenceSide::q, slot.sequence);
    const TileRows rows = tile_rows_of(range, slot.tile, kM0);
    const bool has_own_splits = p.is_group_mode && p.is_deterministic;
    const std::int64_t nsplits = params.nsplits[has_own_splits ? slot.sequence : 0];
    const std::int64_t split_stride = range.physical * p.hdim_q;
    const std::int64_t offset =
        p.is_group_mode ? params.dq_acc_offsets[slot.sequence] : slot.sequence * p.nhead_q * nsplits * split_stride;
    for (std::int64_t head = 0; head < p.nhead_q && !rows.real.empty(); ++head) {
      const float* dq_acc = static_cast<const float*>(params.dq_acc) + offset + head * nsplits * split_stride +
                            rows.real.begin * p.hdim_q;
      ops.reduce_splits(dq_acc, nsplits, split_stride, rows.real.end - rows.real.begin, p.hdim_q, params.scale,
                        output_rows(params.dq, p, slot.sequence, range.start + rows.real.begin, head));
    }
    fill(Fill::zero, params.dq, p, slot.sequence, {range.start + rows.padding.begin, range.start + rows.padding.end},
         {0, p.nhead_q}, p.hdim_q);
  }
  fill_share(Fill::zero, params.dq, p, SequenceSide::q, tail_rows(p, params.lengths, SequenceSide::q), p.nhead_q,
             p.hdim_q, block);
}

}  // namespace fmhax::cpu
