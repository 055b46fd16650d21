/// @file dq = dS K of one query tile after another, and its way to memory.
#pragma once

#include "backward_block.cuh"
#include "dq_tile.cuh"
#include "warp_products.cuh"

namespace fmhax::portable {

/// Where a thread writes dq of a step, and which query tile that is.
template <class Block>
class DqSteps {
  static constexpr BackwardConfig kConfig = Block::kConfig;
  static constexpr int kM = Block::kM;
  static constexpr int kN = Block::kN;
  static constexpr int kWarpsM = kConfig.dq_warps_m;
  static constexpr int kWarpsN = kConfig.warps / kWarpsM;
  static constexpr int kTilesM = Block::kRowTiles / kWarpsM;
  static constexpr int kTilesN = Block::kDepthQ / kWarpsN;
  static constexpr int kStep = 16 * kKeyOperandTiles;  ///< keys of one product
  static_assert(kTilesM * kWarpsM == Block::kRowTiles && kTilesN * kWarpsN == Block::kDepthQ && kN % kStep == 0);

 public:
  __device__ explicit DqSteps(Block& block) : block_(block) {}

  __device__ int row() const { return row_; }
  __device__ int head() const { return head_; }  ///< within the key head's group

  /// At the first row of the first head.
  __device__ __forceinline__ void move_to_head() {
    const KernelParams& again = arch::read_again<0>(block_.params);
    const TileJob& job = block_.job;
    row_ = block_.tile.first_row;
    const Problem& p = again.problem;
    const std::int64_t row = row_ + first_tile_m() * 16;
    const std::int64_t column = first_tile_n() * 16;
    if constexpr (kConfig.is_direct) {
      target_ = reinterpret_cast<unsigned char*>(
          block_.rows_of(again.dq, job.q, row + quad_row(0, block_.lane), block_.head_q(head_)) + column +
          packed_column(block_.lane));
    } else {
      constexpr int kGroupRows = DqOrder::kGroupRows;
      const std::int64_t nsplits = p.is_deterministic ? again.nsplits[p.is_group_mode ? job.sequence : 0] : 1;
      const std::int64_t begin = p.is_group_mode ? again.dq_acc_offsets[job.sequence]
                                                 : job.sequence * p.nhead_q * nsplits * job.q.physical * p.hdim_q;
      const std::int64_t rows = (block_.head_q(head_) * nsplits + job.split) * job.q.physical + row;
      target_ = reinterpret_cast<unsigned char*>(static_cast<float*>(again.dq_acc) + begin + rows * p.hdim_q +
                                                 column * kGroupRows + quad_place(0, kGroupRows, 16, block_.lane));
    }
  }

  __device__ __forceinline__ void advance() {
    row_ += kM;
    if (row_ < block_.tile.end_row) {
      target_ += kM * row_bytes();
    } else if (++head_ < block_.tile.group) {
      move_to_head();
    }
  }

  /// What a warp multiplies at once: all its columns, or one half after the other, so that the first is on its way to
  /// memory while the second is computed.
  static constexpr int kTilesAtOnce = kTilesN % 4 == 0 && !Block::kIsAlone ? kTilesN / 2 : kTilesN;
  using Sums = Accumulator[kTilesM][kTilesAtOnce];

  /// dq of a step whose dS lies in shared memory.
  __device__ __forceinline__ void finish(int stage) const {
#pragma unroll
    for (int first = 0; first < kTilesN; first += kTilesAtOnce) {
      Sums sums = {};
      multiply(stage, first, sums);
      write(sums, first);
    }
  }

  static constexpr int kProducts = kTilesM * kTilesAtOnce * kN / 16;  ///< of 16 x 16 x 16 in a step

  /// dS and K of a step as operands, where there are registers for all of them at once.
  struct Operands {
    KeyOperand ds[kN / kStep][kTilesM];
    KeyOperand k[kN / kStep][kTilesAtOnce];
  };
  static constexpr bool kReadsAhead = !kConfig.is_direct && sizeof(Operands) <= 64 * sizeof(std::uint32_t);

  __device__ __forceinline__ void read_ahead(int stage, Operands& operands) const {
    if constexpr (kReadsAhead) {
      const Places from = places(stage, 0);
#pragma unroll
      for (int i = 0; i < kN / kStep; ++i) load(from, i * kStep, operands.ds[i], operands.k[i]);
    }
  }
  /// sums += dS K, with what read_ahead() has read.
  __device__ __forceinline__ void multiply(int stage, const Operands& operands, Sums& sums) const {
    if constexpr (kReadsAhead) {
#pragma unroll
      for (int i = 0; i < kN / kStep; ++i) multiply_tiles(operands.ds[i], operands.k[i], sums);
    } else {
      multiply(stage, 0, sums);
    }
  }

  /// To dq or dq_acc.
  __device__ __forceinline__ void write(const Sums& sums, int first = 0) const {
    const KernelParams& params = arch::read_again<0>(block_.params);
    const TileJob& job = block_.job;
    const int row = row_ + first_tile_m() * 16;
    const int column = (first_tile_n() + first) * 16;
    const int columns = block_.hdim_q() - column;
    if constexpr (kConfig.is_direct) {
      store_dq<Block::kType>(sums, target_, row_bytes(), first * 16, static_cast<int>(job.q.physical) - row, columns,
                             params.scale, block_.is_aligned(), block_.lane);
    } else {
      add_to_dq_acc(sums, target_ + first * 16 * DqOrder::kGroupRows * 4, params.problem.hdim_q, column,
                    {row, job.q.physical, block_.tile.seqlen_q}, columns, block_.is_deterministic, job.adds,
                    block_.lane);
    }
  }

 private:
  /// Where this lane's operands begin in shared memory.
  struct Places {
    const std::uint16_t* ds;
    const std::uint16_t* k;
  };
  static constexpr int kPitchK = Block::kPitchK;
  static constexpr int kPitchS = Block::kPitchS;

  __device__ Places places(int stage, int first) const {
    return {
        block_.shared.ds[stage] + key_place<kPitchS>(first_tile_m() * 16, 0) + left_key_offset(kPitchS, block_.lane),
        block_.shared.k + key_place<kPitchK>((first_tile_n() + first) * 16, 0) +
            right_key_offset(kPitchK, block_.lane)};
  }
  __device__ __forceinline__ static void load(const Places& from, int key, KeyOperand (&ds)[kTilesM],
                                              KeyOperand (&k)[kTilesAtOnce]) {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) ds[m] = load_left_keys(from.ds + key_place<kPitchS>(m * 16, key), kPitchS);
#pragma unroll
    for (int n = 0; n < kTilesAtOnce; ++n) k[n] = load_right_keys(from.k + key_place<kPitchK>(n * 16, key), kPitchK);
  }
  __device__ __forceinline__ static void multiply_tiles(const KeyOperand (&ds)[kTilesM],
                                                        const KeyOperand (&k)[kTilesAtOnce], Sums& sums) {
#pragma unroll
    for (int n = 0; n < kTilesAtOnce; ++n) {
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) fmhax::portable::multiply<Block::kType>(sums[m][n], ds[m], k[n]);
    }
  }
  /// sums += dS K; of the columns from tile `first` on.
  __device__ __forceinline__ void multiply(int stage, int first, Sums& sums) const {
    const Places from = places(stage, first);
    const auto multiply_keys = [&](int key) {
      KeyOperand ds[kTilesM];
      KeyOperand k[kTilesAtOnce];
      load(from, key, ds, k);
      multiply_tiles(ds, k, sums);
    };
    if constexpr (kConfig.is_direct) {
      const Band& band = block_.tile.band;
      const int end = min(min(block_.tile.seqlen_k, kN), row_ + kM + band.high);
#pragma unroll 2
      for (int key = max(row_ + band.low, 0) / kStep * kStep; key < end; key += kStep) multiply_keys(key);
    } else {
#pragma unroll kConfig.dq_unroll
      for (int key = 0; key < kN; key += kStep) multiply_keys(key);
    }
  }

  __device__ int first_tile_m() const { return block_.warp() / kWarpsN * kTilesM; }
  __device__ int first_tile_n() const { return block_.warp() % kWarpsN * kTilesN; }
  __device__ std::int64_t row_bytes() const {
    return kConfig.is_direct ? block_.params.dq.stride_seqlen * 2 : block_.params.problem.hdim_q * 4;
  }

  Block& block_;
  unsigned char* target_ = nullptr;
  int head_ = 0;
  int row_ = 0;
};

}  // namespace fmhax::portable
