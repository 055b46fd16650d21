// The forward pass, for samples and tests.
#include <algorithm>
#include <limits>

#include "bodies.hpp"
#include "feature_tiles.hpp"
#include "geometry.hpp"
#include "scratch.hpp"

namespace fmhax::cpu {
namespace {

void fill_lse(const KernelParams& params, std::int64_t sequence, IndexRange rows, IndexRange heads, float value) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      *row_value(params.lse, params.problem, sequence, row, head) = value;
    }
  }
}

// Rows that see nothing, counted as by input_rows().
void fill_unseen(const KernelParams& params, std::int64_t sequence, IndexRange rows, IndexRange heads) {
  fill(Fill::zero, params.o, params.problem, sequence, rows, heads, params.problem.hdim_v);
  fill_lse(params, sequence, rows, heads, -std::numeric_limits<float>::infinity());
}

// This block's share of a call whose lengths are refused.
void fill_invalid(const KernelParams& params, Block block) {
  const Problem& p = params.problem;
  fill_share(Fill::nan, params.o, p, SequenceSide::q, {0, rows_q(p)}, p.nhead_q, p.hdim_v, block);
  for (std::int64_t row = block.index; row < rows_q(p); row += block.count) {
    const std::int64_t sequence = p.is_group_mode ? 0 : row / p.max_seqlen_q;
    const std::int64_t within = p.is_group_mode ? row : row % p.max_seqlen_q;
    fill_lse(params, sequence, {within, within + 1}, {0, p.nhead_q}, std::numeric_limits<float>::quiet_NaN());
  }
}

void run_query_tile(const KernelParams& params, const TileOps& ops, std::int64_t sequence, std::int64_t head,
                    const SequenceRange& q, IndexRange rows) {
  const Problem& p = params.problem;
  const SequenceRange k = sequence_range(p, params.lengths, SequenceSide::k, sequence);
  const Mask mask = bounded_mask(p.mask);
  const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
  const std::int64_t row = q.start + rows.begin;
  KeyTile keys{{}, {}, 0, p.hdim_q, p.hdim_v};
  const float sink = p.has_sink ? params.sink[head] : -std::numeric_limits<float>::infinity();
  QueryTile queries{
      input_rows(params.q, p, sequence, row, head), {}, {}, {}, rows.end - rows.begin, params.scale, {}, nullptr, sink};
  float* scratch = scratch_memory();
  FeatureTiles features(params, ops, scratch);
  const HeadPlace place{sequence, head, q, k};
  features.store_random_values(place, rows, {0, k.logical});
  ops.begin_forward(scratch, keys, queries);
  const std::int64_t first_key = visible_keys(mask, q.logical, k.logical, rows.begin).begin;
  const std::int64_t last_key = visible_keys(mask, q.logical, k.logical, rows.end - 1).end;
  for (std::int64_t tile = first_key / kN0; tile * kN0 < last_key; ++tile) {
    const IndexRange real = tile_rows_of(k, tile, kN0).real;
    keys.k = input_rows(params.k, p, sequence, k.start + real.begin, key_head);
    keys.v = input_rows(params.v, p, sequence, k.start + real.begin, key_head);
    keys.keys = real.end - real.begin;
    queries.visibility = tile_visibility(mask, q.logical, k.logical, rows, real);
    if (queries.visibility.key_begin >= queries.visibility.key_end) continue;
    queries.features = features.load(place, rows, real);
    ops.forward_keys(scratch, keys, queries);
  }
  ops.store_forward(scratch, keys, queries.rows, output_rows(params.o, p, sequence, row, head),
                    row_value(params.lse, p, sequence, row, head), params.lse.stride_seqlen);
}

}  // namespace

std::int64_t forward_jobs(const Problem& p) noexcept {
  return std::max(slot_count(p, SequenceSide::q, kM0) * p.nhead_q, rows_q(p) > 0 ? std::int64_t{1} : 0);
}

void forward(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  if (check_lengths(p, params.lengths).code != StatusCode::ok) return fill_invalid(params, block);
  const std::int64_t jobs = slot_count(p, SequenceSide::q, kM0) * p.nhead_q;
  for (std::int64_t job = block.index; job < jobs; job += block.count) {
    const TileSlot slot = find_slot(p, params.lengths, SequenceSide::q, kM0, job / p.nhead_q);
    const std::int64_t head = job % p.nhead_q;
    const SequenceRange q = sequence_range(p, params.lengths, SequenceSide::q, slot.sequence);
    const TileRows rows = tile_rows_of(q, slot.tile, kM0);
    if (!rows.real.empty()) run_query_tile(params, ops, slot.sequence, head, q, rows.real);
    fill_unseen(params, slot.sequence, {q.start + rows.padding.begin, q.start + rows.padding.end}, {head, head + 1});
  }
  const IndexRange tail = tail_rows(p, params.lengths, SequenceSide::q);
  for (std::int64_t row = tail.begin + block.index; row < tail.end; row += block.count) {
    fill_unseen(params, 0, {row, row + 1}, {0, p.nhead_q});
  }
}

}  // namespace fmhax::cpu
