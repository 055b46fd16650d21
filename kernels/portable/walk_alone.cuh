/// @file The steps of a block whose warps have a matrix unit each: what keeps the unit waiting is time lost. A step is
/// written in phases, in each of which matrix instructions have other work beside them, and what a phase needs of
/// shared memory has been asked for in the one before. The compiler keeps to the phases; left to itself it asks late,
/// to save registers.
#pragma once

#include "dq_steps.cuh"
#include "key_rows.cuh"
#include "query_steps.cuh"
#include "score_step.cuh"
#include "warp_products.cuh"

namespace fmhax::portable {

template <class Block>
class AloneWalk {
  static constexpr BackwardConfig kConfig = Block::kConfig;
  static constexpr DataType kType = Block::kType;
  static constexpr int kStages = Block::kStages;
  static constexpr int kPitchQ = Block::kPitchQ;
  static constexpr int kPitchV = Block::kPitchV;
  static constexpr int kPitchS = Block::kPitchS;
  static constexpr int kKeyTiles = Block::kKeyTiles;
  static constexpr int kRowTiles = Block::kRowTiles;
  using Operands = Operand[kKeyTiles][kRowTiles];
  using Sums = Accumulator[kKeyTiles][kRowTiles];
  template <int kTiles>
  using Columns = ColumnGroup<kColumnGroup<kTiles>>[kRowTiles][kTiles / kColumnGroup<kTiles>];
  using SumsOfK = typename Block::SumsOfK;
  using SumsOfV = typename Block::SumsOfV;
  using Held = typename QuerySteps<Block>::Held;
  using Dq = DqSteps<Block>;
  static_assert(Block::kSplit == 1);

  // Of a lane's instructions in a step, at most or about: matrix instructions for dv and for dk, those that read their
  // rows of dout and of q, and what an element of P takes to come from S and to be rounded.
  static constexpr int kProductsV = kKeyTiles * kRowTiles * Block::kTilesV;
  static constexpr int kProductsQ = kKeyTiles * kRowTiles * Block::kTilesQ;
  static constexpr int kReadsV = 2 * kRowTiles * Block::kTilesV / kColumnGroup<Block::kTilesV>;
  static constexpr int kReadsQ = 2 * kRowTiles * Block::kTilesQ / kColumnGroup<Block::kTilesQ>;
  static constexpr int kElements = kKeyTiles * kRowTiles * Accumulator::kColumns;
  static constexpr int kExponentiation = 5 * kElements;
  static constexpr int kRounding = 5 * kElements / 2;
  /// Features need registers of their own.
  static constexpr bool kReadsLate = kConfig.has_features && kConfig.hdim_v > 128;

 public:
  __device__ AloneWalk(Block& block, const HeldKeys<Block>& keys) : block_(block), shared_(block.shared), keys_(keys) {}

  /// Over all query tiles, each step's dq in the next one. Memory answers in the order in which it was asked: copies
  /// are begun behind the step's last addition to dq_acc. They are begun in the last step, too, where they are of no
  /// use: behind a condition the compiler would wait for memory.
  __device__ __forceinline__ void run(int steps, SumsOfK& dk, SumsOfV& dv) {
    if (steps == 0) return;
    QuerySteps<Block> next(block_);
    Dq dq(block_);
    next.begin();
    dq.move_to_head();
    const TileNumbers& tile = block_.tile;
    int row = tile.first_row, head = 0;
#pragma unroll 1
    for (int index = 0; index < steps; ++index) {
      __syncthreads();
      typename Dq::Sums dq_before = {};
      step(row, head, index, next, dq, dq_before, dk, dv);
      if (index > 0) {
        dq.write(dq_before);
        dq.advance();
      }
      row += Block::kM;
      if (row >= tile.end_row) {
        row = tile.first_row;
        ++head;
      }
    }
    __syncthreads();
    dq.finish((steps - 1) % 2);
  }

 private:
  /// One query tile: its part of dk and dv, and its dS for dq; the products for dq of the step before, in the first
  /// step of whatever lies in shared memory; the copies for the next.
  __device__ __forceinline__ void step(int row, int head, int index, QuerySteps<Block>& next, Dq& dq,
                                       typename Dq::Sums& dq_before, SumsOfK& dk, SumsOfV& dv) {
    const int lane = block_.lane;
    const std::uint16_t* q = shared_.q[index % kStages];
    const std::uint16_t* dout = shared_.dout[index % kStages];
    const int stage_before = (index + 1) % 2;

    DeepOperand q_rows[kRowTiles][Block::kDepthQ / kDeepTiles];
    load_rows<kPitchQ>(q, lane, q_rows);
    typename Dq::Operands dq_operands;
    dq.read_ahead(stage_before, dq_operands);
    Held held;
    next.begin_copies(index + 1, held);
    end_phase();

    Sums s = {}, dp = {};
    float4 numbers[kRowTiles][Accumulator::kColumns / 2];
    load_stats(shared_.stats[index % 2], numbers);
    const auto stats = [&](int i, int pair) { return numbers[i][pair]; };
    DeepOperand dout_rows[kRowTiles][Block::kDepthV / kDeepTiles];
    load_rows<kPitchV>(dout, lane, dout_rows);
    multiply_rows<kType>(s, keys_.k, q_rows);
    end_phase();

    dq.multiply(stage_before, dq_operands, dq_before);
    if constexpr (!kConfig.has_features) exponentiate(stats, block_.scale, s);
    order_beside_matrix<Dq::kProducts, Work::vector, (kExponentiation + Dq::kProducts - 1) / Dq::kProducts>();
    end_phase();

    multiply_rows<kType>(dp, keys_.v, dout_rows);
    Columns<Block::kTilesV> dout_columns;
    if constexpr (!kReadsLate) load_columns<kPitchV>(dout, lane, dout_columns);
    order_beside_matrix<kReadsV, Work::shared_read, 1>();
    end_phase();

    if constexpr (kConfig.has_features) {
      finish_with_features(block_, head, stats, row, s, dp);
      if constexpr (kReadsLate) load_columns<kPitchV>(dout, lane, dout_columns);
    } else if (block_.needs_mask(row)) {
      hide(block_.local_band(row), s);
    }
    Operands p, ds;
    round_to_operands<kType>(s, p);
    multiply_columns<kType>(dv, p, dout_columns);
    Columns<Block::kTilesQ> q_columns;
    load_columns<kPitchQ>(q, lane, q_columns);
    if constexpr (!kConfig.has_features) differentiate(stats, s, dp);
    round_to_operands<kType>(dp, ds);
    order_next<Work::vector, kRounding + 2>();
    order_next<Work::shared_read, kReadsQ>();
    order_beside_matrix<kProductsV, Work::vector, 4>();
    end_phase();

    store_operands<kPitchS>(shared_.ds[index % 2] + key_place<kPitchS>(0, block_.warp_keys()), ds, lane);
    multiply_columns<kType>(dk, ds, q_columns);
    order_next<Work::vector, 4>();
    order_beside_matrix<kProductsQ / 2, Work::vector, 2>();
    order_beside_matrix<kProductsQ / 2, Work::shared_write, 1>();
    if constexpr (kStages == 1) __syncthreads();
    next.end_copies(index + 1, held);
    next.advance();
  }

  __device__ __forceinline__ void load_stats(const float4* from,
                                             float4 (&to)[kRowTiles][Accumulator::kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair)
        to[i][pair] = from[stats_place(i, pair, block_.lane)];
    }
  }

  Block& block_;
  typename Block::Shared& shared_;
  const HeldKeys<Block>& keys_;
};

}  // namespace fmhax::portable
