// dbias and dsink: sums in an order that depends on the lengths alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bodies.hpp"
#include "key_tile.hpp"

namespace fmhax::cpu {
namespace {

bool is_refused(const KernelParams& params) {
  if (params.nsplits != nullptr) return params.nsplits[0] < 0;
  return check_lengths(params.problem, params.lengths).code != StatusCode::ok;
}

std::int64_t key_tiles(const Problem& p) { return ceil_div(p.max_seqlen_k, kN0); }

/// One tile of dbias: its rows and keys count within the sequence, or in batch mode within every sequence.
struct BiasTile {
  IndexRange sequences;
  IndexRange heads;
  std::int64_t row_tile;
  std::int64_t key_tile;
};

/// Adds dS of all sequences and heads of the tile to `sum`, [kM0, kFeatureStride].
class BiasTileSum {
 public:
  BiasTileSum(const KernelParams& params, const TileOps& ops, float* scratch)
      : params_(params),
        ops_(ops),
        scratch_(scratch),
        sum_(scratch + kScratchFloats + 2 * kFeatureTileFloats),
        features_(params, ops, scratch) {}

  const float* run(const BiasTile& tile) {
    std::fill_n(sum_, kFeatureTileFloats, 0.0F);
    for (std::int64_t sequence = tile.sequences.begin; sequence < tile.sequences.end; ++sequence) {
      add_sequence(tile, sequence);
    }
    return sum_;
  }

 private:
  void add_sequence(const BiasTile& tile, std::int64_t sequence) {
    const Problem& p = params_.problem;
    HeadPlace place{sequence, 0, sequence_range(p, params_.lengths, SequenceSide::q, sequence),
                    sequence_range(p, params_.lengths, SequenceSide::k, sequence)};
    const IndexRange rows = tile_rows_of(place.q, tile.row_tile, kM0).real;
    const IndexRange keys = tile_rows_of(place.k, tile.key_tile, kN0).real;
    const Mask mask = bounded_mask(p.mask);
    const IndexRange seeing = rows_seeing(mask, place.q.logical, place.k.logical, keys);
    const IndexRange query{std::max(rows.begin, seeing.begin), std::min(rows.end, seeing.end)};
    if (query.empty()) return;
    const std::int64_t group = p.nhead_q / p.nhead_k;
    for (std::int64_t head = tile.heads.begin; head < tile.heads.end; ++head) {
      place.head = head;
      const KeyTile key_tile = key_tile_of(params_, place, head / group, keys);
      if (head == tile.heads.begin || head % group == 0) ops_.load_keys(scratch_, key_tile);
      const RowValues d{row_value(params_.d, p, sequence, place.q.start + query.begin, head), params_.d.stride_seqlen};
      const QueryTile queries = query_tile_of(params_, mask, place, query, keys, d, features_.load(place, query, keys));
      ops_.add_bias_gradient(scratch_, key_tile, queries, sum_ + (query.begin - tile.row_tile * kM0) * kFeatureStride);
    }
  }

  const KernelParams& params_;
  const TileOps& ops_;
  float* scratch_;
  float* sum_;
  FeatureTiles features_;
};

/// All of dbias, shared among the blocks.
void fill_dbias(Fill value, const KernelParams& params, IndexRange rows, Block block) {
  const Problem& p = params.problem;
  const std::int64_t count = rows.end - rows.begin;
  if (count <= 0) return;
  const std::int64_t batch = p.is_group_mode ? 1 : params.dbias_batch;
  for (std::int64_t i = block.index; i < batch * count; i += block.count) {
    const std::int64_t row = rows.begin + i % count;
    fill(value, params.dbias, p, i / count, {row, row + 1}, {0, params.dbias_nhead}, p.max_seqlen_k);
  }
}

/// Rows [begin, begin + count) of the tensor as input_rows() counts them.
void store_tile(const KernelParams& params, const TileOps& ops, std::int64_t sequence, std::int64_t head,
                std::int64_t begin, std::int64_t count, std::int64_t key_tile, const float* sum) {
  const Problem& p = params.problem;
  const std::int64_t first_key = key_tile * kN0;
  const OutputRows to = output_rows(params.dbias, p, sequence, begin, head);
  const std::int64_t size = element_size(p.dtype);
  for (std::int64_t r = 0; r < count; ++r) {
    narrow_row(ops, p.dtype, sum + r * kFeatureStride, std::min(kN0, p.max_seqlen_k - first_key),
               static_cast<std::byte*>(to.data) + (r * to.stride + first_key) * size);
  }
}

double sink_gradient(const KernelParams& params, std::int64_t head) {
  const Problem& p = params.problem;
  const auto sink = static_cast<double>(params.sink[head]);
  double sum = 0;
  for (std::int64_t sequence = 0; sequence < p.batch; ++sequence) {
    const SequenceRange q = sequence_range(p, params.lengths, SequenceSide::q, sequence);
    const float* lse = row_value(params.lse, p, sequence, q.start, head);
    const float* d = row_value(params.d, p, sequence, q.start, head);
    for (std::int64_t row = 0; row < q.logical; ++row) {
      const auto share = std::exp(sink - static_cast<double>(lse[row * params.lse.stride_seqlen]));
      sum -= share * static_cast<double>(d[row * params.d.stride_seqlen]);
    }
  }
  return sum;
}

}  // namespace

std::int64_t dbias_jobs(const KernelParams& params) noexcept {
  const Problem& p = params.problem;
  const std::int64_t tiles = p.is_group_mode
                                 ? std::max(slot_count(p, SequenceSide::q, kM0), std::int64_t{1})
                                 : std::max(params.dbias_batch, std::int64_t{1}) * ceil_div(p.max_seqlen_q, kM0);
  return tiles * key_tiles(p) * std::max(params.dbias_nhead, std::int64_t{1});
}

void dbias(const KernelParams& params, const TileOps& ops, Block block) {
  const Problem& p = params.problem;
  const IndexRange all_rows{0, p.is_group_mode ? p.total_q : p.max_seqlen_q};
  if (is_refused(params)) return fill_dbias(Fill::nan, params, all_rows, block);
  BiasTileSum sum(params, ops, scratch_memory());
  const std::int64_t q_tiles =
      p.is_group_mode ? slot_count(p, SequenceSide::q, kM0) : params.dbias_batch * ceil_div(p.max_seqlen_q, kM0);
  const std::int64_t jobs = q_tiles * key_tiles(p) * params.dbias_nhead;
  for (std::int64_t job = block.index; job < jobs; job += block.count) {
    const std::int64_t head = job % params.dbias_nhead;
    const std::int64_t q_tile = job / params.dbias_nhead % q_tiles;
    BiasTile tile{{},
                  {head, head + 1},
                  q_tile / std::max<std::int64_t>(params.dbias_batch, 1),
                  job / params.dbias_nhead / q_tiles};
    if (params.dbias_nhead == 1) tile.heads = {0, p.nhead_q};
    std::int64_t sequence = 0;
    SequenceRange q{0, p.max_seqlen_q, p.max_seqlen_q};
    if (p.is_group_mode) {
      const TileSlot slot = find_slot(p, params.lengths, SequenceSide::q, kM0, q_tile);
      sequence = slot.sequence;
      tile.row_tile = slot.tile;
      tile.sequences = {sequence, sequence + 1};
      q = sequence_range(p, params.lengths, SequenceSide::q, sequence);
    } else {
      sequence = q_tile % params.dbias_batch;
      tile.sequences = params.dbias_batch == 1 ? IndexRange{0, p.batch} : IndexRange{sequence, sequence + 1};
    }
    const std::int64_t begin = std::min(tile.row_tile * kM0, q.physical);
    const std::int64_t count = std::min(begin + kM0, q.physical) - begin;
    if (count == 0) continue;
    store_tile(params, ops, sequence, head, q.start + begin, count, tile.key_tile, sum.run(tile));
  }
  fill_dbias(Fill::zero, params, tail_rows(p, params.lengths, SequenceSide::q), block);
}

std::int64_t dsink_jobs(const KernelParams& params) noexcept { return params.problem.nhead_q; }

void dsink(const KernelParams& params, const TileOps&, Block block) {
  const bool refused = is_refused(params);
  for (std::int64_t head = block.index; head < params.problem.nhead_q; head += block.count) {
    params.dsink[head] =
        refused ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sink_gradient(params, head));
  }
}

}  // namespace fmhax::cpu
