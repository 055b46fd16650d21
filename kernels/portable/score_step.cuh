/// @file From S^T = K Q^T and dP^T = V dO^T of a warp's keys and a step's rows to P^T and dS^T. Keys are the rows of
/// these products, query rows their columns. `stats(i, pair)` is {lse, lse, d, d} of a lane's columns 2 * pair and
/// 2 * pair + 1 in tile i.
#pragma once

#include "arch/mma.cuh"
#include "band.cuh"
#include "score_tile.cuh"

namespace fmhax::portable {

/// Where stats(i, pair) lie in shared memory, which has them of two query rows at a time.
__device__ __forceinline__ int stats_place(int i, int pair, int lane) {
  return i * 8 + Accumulator::column(2 * pair, lane) / 2;
}

/// Whether the key of row r in tile m is hidden from the query row of column c in tile i; the band is seen from the
/// lane's first row and key.
__device__ __forceinline__ bool hides(const LocalBand& band, int i, int c, int m, int r) {
  return band.hides(i * 16 + Accumulator::column(c, 0), m * 16 + Accumulator::row(r, 0));
}

/// P of keys that their rows don't see becomes 0.
template <int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void hide(const LocalBand& band, Accumulator (&p)[kKeyTiles][kRowTiles]) {
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int c = 0; c < Accumulator::kColumns; ++c) {
#pragma unroll
        for (int r = 0; r < Accumulator::kRows; ++r) {
          if (hides(band, i, c, m, r)) p[m][i].value[Accumulator::element(r, c)] = 0;
        }
      }
    }
  }
}

/// s becomes P.
template <class Stats, int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void exponentiate(const Stats& stats, float scale, Accumulator (&s)[kKeyTiles][kRowTiles]) {
  scale *= kLog2E;
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair) {
      const float4 of_rows = stats(i, pair);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float shift = (c == 0 ? of_rows.x : of_rows.y) * kLog2E;
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
          for (int r = 0; r < Accumulator::kRows; ++r) {
            float& value = s[m][i].value[Accumulator::element(r, 2 * pair + c)];
            // A row that sees no key has lse = -inf, so infinity here; such a row is masked.
            value = arch::fast_exp2(value * scale - shift);
          }
        }
      }
    }
  }
}

/// dp becomes dS.
template <class Stats, int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void differentiate(const Stats& stats, const Accumulator (&p)[kKeyTiles][kRowTiles],
                                              Accumulator (&dp)[kKeyTiles][kRowTiles]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair) {
      const float4 of_rows = stats(i, pair);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
          for (int r = 0; r < Accumulator::kRows; ++r) {
            const int e = Accumulator::element(r, 2 * pair + c);
            float& value = dp[m][i].value[e];
            value = p[m][i].value[e] * (value - (c == 0 ? of_rows.z : of_rows.w));
          }
        }
      }
    }
  }
}

/// Both at once where features take part: s becomes P as dropout leaves it, dp becomes dS on its way to dq and dk. The
/// warp's rows begin with `first_row`, its keys with `first_key`, of which `seqlen_q` rows are real.
template <DataType kType, class Stats, int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void finish_with_features(const LogitFeatures& logits, const DropoutFeatures& dropout,
                                                     const LocalBand& band, const Stats& stats, float scale,
                                                     int first_row, int first_key, int seqlen_q, int lane,
                                                     Accumulator (&s)[kKeyTiles][kRowTiles],
                                                     Accumulator (&dp)[kKeyTiles][kRowTiles]) {
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
    const int keys = first_key + m * 16;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int rows = first_row + i * 16;
      float factors[1][Accumulator::kRows * Accumulator::kColumns];
      if (dropout.is_on) {
        dropout_factors<true>(
            dropout, [&](int) { return make_int2(rows, keys); }, factors);
      }
#pragma unroll
      for (int c = 0; c < Accumulator::kColumns; ++c) {
        const float4 of_rows = stats(i, c / 2);
        const float lse = c % 2 == 0 ? of_rows.x : of_rows.y;
        const float d = c % 2 == 0 ? of_rows.z : of_rows.w;
        const int row = rows + Accumulator::column(c, lane);
        const bool has_row = row < seqlen_q && lse != -INFINITY;
#pragma unroll
        for (int r = 0; r < Accumulator::kRows; ++r) {
          const int e = Accumulator::element(r, c);
          const int key = keys + Accumulator::row(r, lane);
          const Logit logit = logits.logit<kType>(s[m][i].value[e] * scale, row, key);
          const bool counts = has_row && !hides(band, i, c, m, r);
          const float p = counts ? arch::fast_exp2((logit.value - lse) * kLog2E) : 0.0F;
          const float factor = dropout.is_on ? factors[0][e] : 1.0F;
          s[m][i].value[e] = p * factor;
          dp[m][i].value[e] = p * (dp[m][i].value[e] * factor - d) * logit.slope;
        }
      }
    }
  }
}

/// The same for a block's query head `head`, and its warp's keys.
template <class Block, class Stats, int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void finish_with_features(const Block& block, int head, const Stats& stats, int first_row,
                                                     Accumulator (&s)[kKeyTiles][kRowTiles],
                                                     Accumulator (&dp)[kKeyTiles][kRowTiles]) {
  const KernelParams& params = arch::read_again<0>(block.params);
  const TileJob& job = block.job;
  finish_with_features<Block::kType>(logit_features(params, job.sequence, block.head_q(head), job.q, job.k),
                                     dropout_features(params, job.sequence, block.head_q(head)),
                                     block.local_band(first_row), stats, block.scale, first_row,
                                     block.tile.key_begin + block.warp_keys(), block.tile.seqlen_q, block.lane, s, dp);
}

/// Rounded, as left operands of the next products.
template <DataType kType, int kKeyTiles, int kRowTiles>
__device__ __forceinline__ void round_to_operands(const Accumulator (&sums)[kKeyTiles][kRowTiles],
                                                  Operand (&to)[kKeyTiles][kRowTiles]) {
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) to[m][i] = to_operand<kType>(sums[m][i]);
  }
}

}  // namespace fmhax::portable
