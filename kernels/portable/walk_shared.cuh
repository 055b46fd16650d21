/// @file The steps of a block whose warps share matrix units: while one waits another has work, so a step is written in
/// the order in which it takes the fewest registers.
#pragma once

#include "dq_steps.cuh"
#include "key_rows.cuh"
#include "query_steps.cuh"
#include "score_step.cuh"
#include "warp_products.cuh"

namespace fmhax::portable {

template <class Block>
class SharedWalk {
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
  static constexpr bool kAlwaysMasks = Block::kHoldsKeys;  ///< else a step that needs no mask has code of its own
  using SumsOfK = typename Block::SumsOfK;
  using SumsOfV = typename Block::SumsOfV;
  using Operands = Operand[kKeyTiles][kScoredTiles];
  using Sums = Accumulator[kKeyTiles][kScoredTiles];

 public:
  __device__ SharedWalk(Block& block, const HeldKeys<Block>& keys)
      : block_(block), shared_(block.shared), keys_(keys) {}

  /// Over all query tiles, each step's dq in the next one, of which there is one more.
  __device__ __forceinline__ void run(int steps, SumsOfK& dk, SumsOfV& dv) {
    QuerySteps<Block> next(block_);
    DqSteps<Block> dq(block_);
    if (steps > 0) {
      next.begin();
      dq.move_to_head();
    }
    for (int index = 0; index <= steps; ++index) {
      // What follows from these would be kept in registers through all steps.
      block_.thread = arch::computed_here(block_.thread);
      block_.lane = arch::computed_here(block_.lane);
      wait_for_copies();
      __syncthreads();
      typename QuerySteps<Block>::Held held;
      if (index + 1 < steps) next.begin_copies(index + 1, held);
      if (index > 0) {
        dq.finish((index - 1) % 2);
        dq.advance();
      }
      if (index == steps) break;
      if (kAlwaysMasks || block_.needs_mask(dq.row())) {
        step<true>(dq.row(), dq.head(), index, dk, dv);
      } else {
        step<false>(dq.row(), dq.head(), index, dk, dv);
      }
      if (index + 1 < steps) {
        if constexpr (kStages == 1) __syncthreads();
        next.end_copies(index + 1, held);
        next.advance();
      }
    }
  }

 private:
  /// One query tile: its part of dk and dv, and its dS for dq.
  template <bool kIsMasked>
  __device__ __forceinline__ void step(int row, int head, int index, SumsOfK& dk, SumsOfV& dv) {
    const int own = block_.half() * kScoredTiles * 16;  // the first row that this warp scores
    // Of this warp's keys and the step's rows from one on.
    const auto place = [&](std::uint16_t* operands, int first) {
      return operands + key_place<kPitchS>(first, block_.warp_keys());
    };
    std::uint16_t* const shared_ds = shared_.ds[index % 2];
    Operands p = {}, ds = {};
    if (kIsMasked && !kAlwaysMasks && !takes_part(row)) {
      // Every warp meets as many barriers as the others: racecheck loses count where some leave one out.
      if constexpr (kSplit > 1) sync_warps(block_.warp() / kSplit, kSplit);
      return store_operands<kPitchS>(place(shared_ds, own), ds, block_.lane);
    }
    score<kIsMasked>(row + own, own, head, index, p, ds);
    store_operands<kPitchS>(place(shared_ds, own), ds, block_.lane);
    if constexpr (kSplit > 1) store_operands<kPitchS>(place(shared_.p, own), p, block_.lane);
    const std::uint16_t* dout = shared_.dout[index % kStages] + block_.half() * kTilesV * 16 +
                                ColumnGroup<kColumnGroup<kTilesV>>::offset(kPitchV, block_.lane);
    const std::uint16_t* q = shared_.q[index % kStages] + block_.half() * kTilesQ * 16 +
                             ColumnGroup<kColumnGroup<kTilesQ>>::offset(kPitchQ, block_.lane);
    multiply_columns<kType, kPitchV>(dv, p, dout + own * kPitchV);
    multiply_columns<kType, kPitchQ>(dk, ds, q + own * kPitchQ);
    if constexpr (kSplit > 1) {
      const int others = kScoredTiles * 16 - own;
      sync_warps(block_.warp() / kSplit, kSplit);
      load_operands<kPitchS>(place(shared_.p, others), p, block_.lane);
      multiply_columns<kType, kPitchV>(dv, p, dout + others * kPitchV);
      load_operands<kPitchS>(place(shared_ds, others), ds, block_.lane);
      multiply_columns<kType, kPitchQ>(dk, ds, q + others * kPitchQ);
    }
  }

  /// P^T and dS^T of this warp's keys as operands, for its rows from `row` on, which are those from `own` on of the
  /// step's.
  template <bool kIsMasked>
  __device__ __forceinline__ void score(int row, int own, int head, int index, Operands& p, Operands& ds) const {
    const auto stats = [from = shared_.stats[index % 2] + own / 2, lane = block_.lane](int i, int pair) {
      return from[stats_place(i, pair, lane)];
    };
    Sums s = {}, dp = {};
    multiply_rows<kType, Block::kDepthQ, kPitchQ>(s, keys_of<kPitchQ>(keys_.k, shared_.k),
                                                  shared_.q[index % kStages] + own * kPitchQ, block_.lane);
    if constexpr (!kConfig.has_features) {
      exponentiate(stats, block_.scale, s);
      if (kIsMasked) hide(block_.local_band(row), s);
    }
    multiply_rows<kType, Block::kDepthV, kPitchV>(dp, keys_of<kPitchV>(keys_.v, shared_.v),
                                                  shared_.dout[index % kStages] + own * kPitchV, block_.lane);
    if constexpr (kConfig.has_features) {
      finish_with_features(block_, head, stats, row, s, dp);
    } else {
      differentiate(stats, s, dp);
    }
    round_to_operands<kType>(s, p);
    round_to_operands<kType>(dp, ds);
  }

  /// This warp's rows of k or v as left operands, held or in shared memory.
  template <int kPitch, class Held>
  __device__ auto keys_of(const Held& held, const std::uint16_t* in_shared) const {
    const std::uint16_t* at = in_shared + block_.warp_keys() * kPitch + left_deep_offset(kPitch, block_.lane);
    return [&held, at](int m, int depth) {
      return Block::kHoldsKeys ? held[m][depth / kDeepTiles] : load_left_deep(at + m * 16 * kPitch + depth * 16);
    };
  }

  /// Whether some row of a masked step sees some of this warp's keys.
  __device__ bool takes_part(int row) const {
    const TileNumbers& tile = block_.tile;
    const int first_key = tile.key_begin + block_.warp_keys();
    const int last_key = first_key + 16 * kKeyTiles - 1;
    return first_key < tile.seqlen_k && first_key <= row + kM - 1 + tile.band.high && last_key >= row + tile.band.low;
  }

  Block& block_;
  typename Block::Shared& shared_;
  const HeldKeys<Block>& keys_;
};

}  // namespace fmhax::portable
