/// @file dq, dk, dv of one tile of keys, on matrix units.
///
/// For a tile of keys the block walks over the query tiles that see it. A warp scores its keys against a query tile
/// with the keys as rows, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T already lie in registers as the left
/// operands of dV += P^T dO and dK += dS^T Q. dS goes through shared memory too, for dQ = dS K, which each step
/// computes for the step before: the block meets once a step. Warps that share keys (BackwardConfig::hdim_split) also
/// pass each other P and dS there.
#pragma once

#include "dq_steps.cuh"
#include "key_rows.cuh"
#include "query_steps.cuh"
#include "score_step.cuh"
#include "warp_products.cuh"

namespace fmhax::portable {

template <class Instance>
struct BackwardKernel {
  using Block = BackwardBlock<Instance>;
  using Shared = typename Block::Shared;
  static constexpr BackwardConfig kConfig = Block::kConfig;
  static constexpr DataType kType = Block::kType;
  static constexpr int kM = Block::kM;
  static constexpr int kSplit = Block::kSplit;
  static constexpr int kKeyTiles = Block::kKeyTiles;
  static constexpr int kStages = Block::kStages;
  static constexpr int kPitchQ = Block::kPitchQ;
  static constexpr int kPitchV = Block::kPitchV;
  static constexpr int kPitchS = Block::kPitchS;
  static constexpr int kScoredTiles = Block::kScoredTiles;
  static constexpr int kTilesQ = Block::kTilesQ;
  static constexpr int kTilesV = Block::kTilesV;
  /// One warp has a matrix unit to itself: what keeps the unit waiting is time lost.
  static constexpr bool kIsAlone = Block::kHoldsKeys;
  using Operands = Operand[kKeyTiles][kScoredTiles];
  using Sums = Accumulator[kKeyTiles][kScoredTiles];
  using SumsOfK = Accumulator[kKeyTiles][kTilesQ];
  using SumsOfV = Accumulator[kKeyTiles][kTilesV];

  Block block;
  Shared& shared = block.shared;

  __device__ BackwardKernel(const KernelParams& params, const BackwardArguments& arguments, Shared& s)
      : block(params, arguments, s) {}

  /// dk and dv of the job's first tile, and what it adds to dq: in deterministic mode to what the split holds, or over
  /// it.
  __device__ void run() {
    const TileNumbers& tile = block.tile;
    if constexpr (Block::kKeepsNumbers) block.tile = block.job.tile;
    if constexpr (kConfig.has_features) store_random_values();
    SumsOfK dk;
    SumsOfV dv;
    set_to_zero(dk);
    set_to_zero(dv);
    HeldKeys<Block> keys;
    load_keys(block, keys);
    const int steps = tile.first_row < tile.end_row ? (tile.end_row - tile.first_row + kM - 1) / kM * tile.group : 0;
    QuerySteps<Block> next(block);
    DqSteps<Block> dq(block);
    if (steps > 0) {
      next.move_to_head();
      dq.move_to_head();
      typename QuerySteps<Block>::Held held;
      next.begin_copies(0, held);
      next.end_copies(0, held);
      next.advance();
    }
    if constexpr (kIsAlone) {
      walk_alone(steps, next, dq, keys, dk, dv);
    } else {
      walk(steps, next, dq, keys, dk, dv);
    }
    const KernelParams& again = arch::read_again<0>(block.params);
    store_keys(block, again.dk, dk, block.hdim_q(), again.scale);
    store_keys(block, again.dv, dv, block.hdim_v(), 1.0F);
  }

  /// Over all query tiles, each step's dq in the next one, of which there is one more.
  __device__ __forceinline__ void walk(int steps, QuerySteps<Block>& next, DqSteps<Block>& dq,
                                       const HeldKeys<Block>& keys, SumsOfK& dk, SumsOfV& dv) {
    for (int index = 0; index <= steps; ++index) {
      wait_for_copies();
      __syncthreads();
      typename QuerySteps<Block>::Held held;
      if (index + 1 < steps) next.begin_copies(index + 1, held);
      if (index > 0) {
        dq.finish((index - 1) % 2);
        dq.advance();
      }
      if (index == steps) break;
      const bool is_masked = needs_mask(dq.row());
      if (is_masked) {
        step<true>(dq.row(), dq.head(), index, is_masked, keys, dk, dv);
      } else {
        step<false>(dq.row(), dq.head(), index, false, keys, dk, dv);
      }
      if (index + 1 < steps) {
        next.end_copies(index + 1, held);
        next.advance();
      }
    }
  }

  /// The same for a warp that has a matrix unit to itself. Products that don't need each other, dq's of the step before
  /// among them, are one stretch of code without a branch, so that other work fits between. Memory answers in the order
  /// in which it was asked: copies are begun behind the step's last addition to dq_acc. They are begun in the last
  /// step, too, where they are of no use: the compiler would wait for memory behind a condition.
  __device__ __forceinline__ void walk_alone(int steps, QuerySteps<Block>& next, DqSteps<Block>& dq,
                                             const HeldKeys<Block>& keys, SumsOfK& dk, SumsOfV& dv) {
    if (steps == 0) return;
    const TileNumbers& tile = block.tile;
    int row = tile.first_row, head = 0;
    for (int index = 0; index < steps; ++index) {
      __syncthreads();
      typename QuerySteps<Block>::Held held;
      next.begin_copies(index + 1, held);
      typename DqSteps<Block>::Sums dq_before = {};
      dq.multiply_keys((index + 1) % 2, dq_before);  // in the first step of whatever lies there
      step<true>(row, head, index, needs_mask(row), keys, dk, dv);
      if constexpr (kStages == 1) __syncthreads();
      next.end_copies(index + 1, held);
      next.advance();
      if (index > 0) {
        dq.write(dq_before);
        dq.advance();
      }
      row += kM;
      if (row >= tile.end_row) {
        row = tile.first_row;
        ++head;
      }
    }
    __syncthreads();
    dq.finish((steps - 1) % 2);
  }

  /// One query tile: its part of dk and dv, and its dS for dq.
  template <bool kCanBeMasked>
  __device__ __forceinline__ void step(int row, int head, int index, bool is_masked, const HeldKeys<Block>& keys,
                                       SumsOfK& dk, SumsOfV& dv) {
    const int own = block.half() * kScoredTiles * 16;  // the first row that this warp scores
    std::uint16_t* shared_ds = shared.ds[index % 2] + key_place<kPitchS>(0, block.warp_keys());
    [[maybe_unused]] std::uint16_t* shared_p = shared.p + key_place<kPitchS>(0, block.warp_keys());
    Operands p = {}, ds = {};
    if (kCanBeMasked && !kIsAlone && is_masked && !takes_part(row)) {
      // Every warp meets as many barriers as the others: racecheck loses count where some leave one out.
      if constexpr (kSplit > 1) sync_warps(block.warp() / kSplit, kSplit);
      return store_operands<kPitchS>(shared_ds + key_place<kPitchS>(own, 0), ds, block.lane);
    }
    score<kCanBeMasked>(row + own, own, head, index, is_masked, keys, p, ds);
    store_operands<kPitchS>(shared_ds + key_place<kPitchS>(own, 0), ds, block.lane);
    if constexpr (kSplit > 1) store_operands<kPitchS>(shared_p + key_place<kPitchS>(own, 0), p, block.lane);
    const std::uint16_t* dout = shared.dout[index % kStages] + block.half() * kTilesV * 16 +
                                right_group_offset<kColumnGroup<kTilesV>>(kPitchV, block.lane);
    const std::uint16_t* q = shared.q[index % kStages] + block.half() * kTilesQ * 16 +
                             right_group_offset<kColumnGroup<kTilesQ>>(kPitchQ, block.lane);
    accumulate<kType, kPitchV>(dv, p, dout + own * kPitchV);
    accumulate<kType, kPitchQ>(dk, ds, q + own * kPitchQ);
    if constexpr (kSplit > 1) {
      const int others = kScoredTiles * 16 - own;
      sync_warps(block.warp() / kSplit, kSplit);
      load_operands<kPitchS>(shared_p + key_place<kPitchS>(others, 0), p, block.lane);
      accumulate<kType, kPitchV>(dv, p, dout + others * kPitchV);
      load_operands<kPitchS>(shared_ds + key_place<kPitchS>(others, 0), ds, block.lane);
      accumulate<kType, kPitchQ>(dk, ds, q + others * kPitchQ);
    }
  }

  /// P^T and dS^T of this warp's keys as operands, for its rows from `row` on, which are those from `own` on of the
  /// step's.
  template <bool kCanBeMasked>
  __device__ __forceinline__ void score(int row, int own, int head, int index, bool is_masked,
                                        const HeldKeys<Block>& held, Operands& p, Operands& ds) const {
    const float4* stats = shared.stats[index % 2] + own / 2;
    Sums s = {};
    multiply_rows<kType, Block::kHoldsKeys, kPitchQ>(s, held.k, shared.k + block.warp_keys() * kPitchQ,
                                                     shared.q[index % kStages] + own * kPitchQ, block.lane);
    const auto finish_p = [&] {
      exponentiate(stats, block.scale, block.lane, s);
      if (kCanBeMasked && is_masked) hide(local_band(row), s);
    };
    if constexpr (!kConfig.has_features && !kIsAlone) finish_p();
    Sums dp = {};
    multiply_rows<kType, Block::kHoldsKeys, kPitchV>(dp, held.v, shared.v + block.warp_keys() * kPitchV,
                                                     shared.dout[index % kStages] + own * kPitchV, block.lane);
    if constexpr (!kConfig.has_features && kIsAlone) finish_p();
    if constexpr (kConfig.has_features) {
      const TileJob& job = block.job;
      finish_with_features<kType>(logit_features(block.params, job.sequence, block.head_q(head), job.q, job.k),
                                  dropout_features(block.params, job.sequence, block.head_q(head)), local_band(row),
                                  stats, block.scale, row, block.tile.key_begin + block.warp_keys(),
                                  block.tile.seqlen_q, block.lane, s, dp);
    } else {
      differentiate(stats, block.lane, s, dp);
    }
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) {
        p[m][i] = to_operand<kType>(s[m][i]);
        ds[m][i] = to_operand<kType>(dp[m][i]);
      }
    }
  }

  /// Some key of the tile may be hidden from some row of the step, or lie beyond the sequence.
  __device__ bool needs_mask(int row) const {
    const TileNumbers& tile = block.tile;
    const int last_key = tile.key_begin + Block::kN - 1;
    return last_key >= tile.seqlen_k || last_key > row + tile.band.high ||
           tile.key_begin < row + kM - 1 + tile.band.low;
  }

  /// Whether some row of a masked step sees some of this warp's keys.
  __device__ bool takes_part(int row) const {
    const TileNumbers& tile = block.tile;
    const int first_key = tile.key_begin + block.warp_keys();
    const int last_key = first_key + 16 * kKeyTiles - 1;
    return first_key < tile.seqlen_k && first_key <= row + kM - 1 + tile.band.high && last_key >= row + tile.band.low;
  }

  /// From this lane's first of the rows from `first` on, and its first key. Made of the mask anew: the compiler would
  /// read tile.band too early, and keep it in registers that are short.
  __device__ LocalBand local_band(int first) const {
    const TileNumbers& tile = block.tile;
    return Band::of(block.params.problem.mask, tile.seqlen_q, tile.seqlen_k)
        .from(first + Accumulator::column(0, block.lane),
              tile.key_begin + block.warp_keys() + Accumulator::row(0, block.lane), tile.seqlen_k);
  }

  /// The bytes behind dropout for all rows and the keys of this tile, where they are asked for.
  __device__ void store_random_values() const {
    const KernelParams& params = block.params;
    if (!params.problem.stores_random_values) return;
    const TileNumbers& tile = block.tile;
    const TileJob& job = block.job;
    const IndexRange keys{tile.key_begin, min(job.k.logical, static_cast<std::int64_t>(tile.key_begin + Block::kN))};
    for (int head = 0; head < tile.group; ++head) {
      portable::store_random_values<Block::kThreads>(params, dropout_features(params, job.sequence, block.head_q(head)),
                                                     job.sequence, block.head_q(head), job.q, {0, tile.seqlen_q}, keys);
    }
  }
};

}  // namespace fmhax::portable
