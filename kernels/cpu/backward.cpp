// dq_dk_dv with dq_acc: the general kernel and the persistent one.
#include <algorithm>

#include "bodies.hpp"
#include "fmhax/contract/workspace.hpp"
#include "key_tile.hpp"
#include "row_locks.hpp"

namespace fmhax::cpu {
namespace {

bool is_invalid_call(const KernelParams& params) { return params.nsplits[0] < 0; }

void fill_key_gradients(Fill value, const KernelParams& params, IndexRange rows, Block block) {
  const Problem& p = params.problem;
  fill_share(value, params.dk, p, SequenceSide::k, rows, p.nhead_k, p.hdim_q, block);
  fill_share(value, params.dv, p, SequenceSide::k, rows, p.nhead_k, p.hdim_v, block);
}

RowValues stored_d(const KernelParams& params, std::int64_t sequence, std::int64_t start, std::int64_t head,
                   IndexRange rows) {
  return {row_value(params.d, params.problem, sequence, start + rows.begin, head), params.d.stride_seqlen};
}

/// The splits of one sequence's dq_acc.
struct SplitLayout {
  float* data;
  std::int64_t nsplits;
  std::int64_t seqlen_q;  // physical
  std::int64_t hdim;

  float* rows(std::int64_t head, std::int64_t split, std::int64_t row) const {
    return data + ((head * nsplits + split) * seqlen_q + row) * hdim;
  }
};

SplitLayout splits_of(const KernelParams& params, std::int64_t sequence, std::int64_t nsplits, std::int64_t seqlen_q) {
  const Problem& p = params.problem;
  const std::int64_t offset =
      p.is_group_mode ? params.dq_acc_offsets[sequence] : sequence * p.nhead_q * nsplits * seqlen_q * p.hdim_q;
  return {static_cast<float*>(params.dq_acc) + offset, nsplits, seqlen_q, p.hdim_q};
}

}  // namespace

std::int64_t backward_general_jobs(const Problem& p) noexcept {
  return std::max(slot_count(p, SequenceSide::k, kN0) * p.nhead_k, rows_k(p) > 0 ? std::int64_t{1} : 0);
}

void backward_general(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  if (is_invalid_call(params)) return fill_key_gradients(Fill::nan, params, {0, rows_k(p)}, block);
  const std::int64_t jobs = slot_count(p, SequenceSide::k, kN0) * p.nhead_k;
  for (std::int64_t job = block.index; job < jobs; job += block.count) {
    const TileSlot slot = find_slot(p, params.lengths, SequenceSide::k, kN0, job / p.nhead_k);
    const SequenceRange k = sequence_range(p, params.lengths, SequenceSide::k, slot.sequence);
    const std::int64_t tiles = key_tiles(kN0, k.physical);
    if (slot.tile >= tiles) continue;
    const SequenceRange q = sequence_range(p, params.lengths, SequenceSide::q, slot.sequence);
    const bool has_own_splits = p.is_group_mode && p.is_deterministic;
    const SplitLayout splits =
        splits_of(params, slot.sequence, params.nsplits[has_own_splits ? slot.sequence : 0], q.physical);
    // One block does the whole of a split: the one that meets its first tile.
    const std::int64_t nsplits = std::max<std::int64_t>(splits.nsplits, 1);  // whatever the metadata hold
    const std::int64_t tiles_of_split = p.is_deterministic ? split_range(tiles, nsplits, 0).end : 1;
    if (slot.tile % tiles_of_split != 0) continue;
    const std::int64_t split = p.is_deterministic ? slot.tile / tiles_of_split : 0;
    float* scratch = scratch_memory();
    const KeyTile shape{{}, {}, 0, p.hdim_q, p.hdim_v};
    for (std::int64_t tile = slot.tile; tile < std::min(slot.tile + tiles_of_split, tiles); ++tile) {
      run_key_tile(
          params, ops, scratch, {slot.sequence, job % p.nhead_k, tile},
          [&](std::int64_t head, IndexRange rows) { return stored_d(params, slot.sequence, q.start, head, rows); },
          [&](std::int64_t head, IndexRange rows) {
            const std::int64_t count = rows.end - rows.begin;
            if (p.is_deterministic) {
              ops.write_dq_acc(scratch, shape, count, splits.rows(head, split, rows.begin), tile != slot.tile);
            } else {
              const RowLock lock(splits.rows(head, 0, rows.begin / kM0 * kM0));
              ops.write_dq_acc(scratch, shape, count, splits.rows(head, 0, rows.begin), true);
            }
          });
    }
  }
  fill_key_gradients(Fill::zero, params, tail_rows(p, params.lengths, SequenceSide::k), block);
}

void backward_persistent(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  if (is_invalid_call(params)) return fill_key_gradients(Fill::nan, params, {0, rows_k(p)}, block);
  WorkspaceSpec spec;
  spec.kN0 = kN0;
  spec.workers = block.count;
  const PersistentSchedule schedule = persistent_schedule(spec, p.batch, p.nhead_k, p.max_seqlen_k);
  const std::int64_t first = block.index * schedule.jobs_per_worker;
  const std::int64_t last = std::min(first + schedule.jobs_per_worker, schedule.jobs);
  for (std::int64_t job = first; job < last; ++job) {
    const std::int64_t head_index = job / schedule.jobs_per_head;
    const std::int64_t sequence = head_index / p.nhead_k;
    // Workers of one head are consecutive; the rank among them is the split.
    const std::int64_t split = block.index - head_index * schedule.jobs_per_head / schedule.jobs_per_worker;
    const SplitLayout splits = splits_of(params, sequence, params.nsplits[0], p.max_seqlen_q);
    float* scratch = scratch_memory();
    const KeyTile shape{{}, {}, 0, p.hdim_q, p.hdim_v};
    run_key_tile(
        params, ops, scratch, {sequence, head_index % p.nhead_k, job % schedule.jobs_per_head},
        [&](std::int64_t head, IndexRange rows) { return stored_d(params, sequence, 0, head, rows); },
        [&](std::int64_t head, IndexRange rows) {
          ops.write_dq_acc(scratch, shape, rows.end - rows.begin, splits.rows(head, split, rows.begin), true);
        });
  }
}

}  // namespace fmhax::cpu
