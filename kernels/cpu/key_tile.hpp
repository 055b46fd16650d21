/// @file The part that every backward kernel shares: one key tile of one key head against all query heads of
/// its group and all query tiles that see it.
#pragma once

#include <algorithm>

#include "bodies.hpp"
#include "feature_tiles.hpp"
#include "geometry.hpp"
#include "scratch.hpp"

namespace fmhax::cpu {

/// A key tile's place in the problem.
struct KeyTilePlace {
  std::int64_t sequence = 0;
  std::int64_t key_head = 0;
  std::int64_t tile = 0;
};

inline KeyTile key_tile_of(const KernelParams& params, const HeadPlace& place, std::int64_t key_head, IndexRange keys) {
  const Problem& p = params.problem;
  const std::int64_t row = place.k.start + keys.begin;
  return {input_rows(params.k, p, place.sequence, row, key_head),
          input_rows(params.v, p, place.sequence, row, key_head), keys.end - keys.begin, p.hdim_q, p.hdim_v};
}

/// Query rows, counted within the sequence, that meet these keys.
inline QueryTile query_tile_of(const KernelParams& params, const Mask& mask, const HeadPlace& place, IndexRange query,
                               IndexRange keys, RowValues d, const TileFeatures* features) {
  const Problem& p = params.problem;
  const std::int64_t row = place.q.start + query.begin;
  return {input_rows(params.q, p, place.sequence, row, place.head),
          input_rows(params.dout, p, place.sequence, row, place.head),
          {row_value(params.lse, p, place.sequence, row, place.head), params.lse.stride_seqlen},
          d,
          query.end - query.begin,
          params.scale,
          tile_visibility(mask, place.q.logical, place.k.logical, query, keys),
          features,
          0.0F};
}

/// Writes dk and dv of the tile, padding included, and its random values. For each query tile of each head it calls
/// d_of(head, rows) for its RowValues of d, and take_dq(head, rows) once dQ of these rows (counted within the
/// sequence) lies in the scratch memory. Returns the query rows that see the tile. The order of all
/// additions depends on the lengths alone.
template <class DOf, class TakeDq>
IndexRange run_key_tile(const KernelParams& params, const TileOps& ops, float* scratch, const KeyTilePlace& place,
                        const DOf& d_of, const TakeDq& take_dq) {
  const Problem& p = params.problem;
  HeadPlace at{place.sequence, 0, sequence_range(p, params.lengths, SequenceSide::q, place.sequence),
               sequence_range(p, params.lengths, SequenceSide::k, place.sequence)};
  const SequenceRange& q = at.q;
  const SequenceRange& k = at.k;
  const TileRows rows = tile_rows_of(k, place.tile, kN0);
  const Mask mask = bounded_mask(p.mask);
  const IndexRange seeing = rows_seeing(mask, q.logical, k.logical, rows.real);
  const std::int64_t group = p.nhead_q / p.nhead_k;
  FeatureTiles features(params, ops, scratch);
  for (at.head = place.key_head * group; at.head < (place.key_head + 1) * group; ++at.head) {
    features.store_random_values(at, {0, q.logical}, rows.real);
  }

  // Keys that nobody sees, and padding.
  const std::int64_t first_zero = k.start + (seeing.empty() ? rows.real.begin : rows.padding.begin);
  const IndexRange zero_rows{first_zero, k.start + rows.padding.end};
  const IndexRange key_heads{place.key_head, place.key_head + 1};
  fill(Fill::zero, params.dk, p, place.sequence, zero_rows, key_heads, p.hdim_q);
  fill(Fill::zero, params.dv, p, place.sequence, zero_rows, key_heads, p.hdim_v);
  if (seeing.empty()) return {};

  const KeyTile keys = key_tile_of(params, at, place.key_head, rows.real);
  ops.load_keys(scratch, keys);
  const std::int64_t first_tile = seeing.begin / kM0;
  const std::int64_t tiles = ceil_div(seeing.end, kM0) - first_tile;
  for (std::int64_t head = place.key_head * group; head < (place.key_head + 1) * group; ++head) {
    for (std::int64_t i = 0; i < tiles; ++i) {
      // Key tiles begin at different query tiles, so that blocks side by side don't queue for the same rows.
      const std::int64_t tile = first_tile + (i + place.tile) % tiles;
      const IndexRange query{std::max(seeing.begin, tile * kM0), std::min(seeing.end, (tile + 1) * kM0)};
      at.head = head;
      ops.backward(
          scratch, keys,
          query_tile_of(params, mask, at, query, rows.real, d_of(head, query), features.load(at, query, rows.real)));
      take_dq(head, query);
    }
  }
  const std::int64_t key_row = k.start + rows.real.begin;
  ops.store_key_gradients(scratch, keys, params.scale,
                          output_rows(params.dk, p, place.sequence, key_row, place.key_head),
                          output_rows(params.dv, p, place.sequence, key_row, place.key_head));
  return seeing;
}

}  // namespace fmhax::cpu
