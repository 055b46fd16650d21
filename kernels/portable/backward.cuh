/// @file dq, dk, dv of one tile of keys, on matrix units.
///
/// For a tile of keys the block walks over the query tiles that see it. A warp scores its keys against a query tile
/// with the keys as rows, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T already lie in registers as the left
/// operands of dV += P^T dO and dK += dS^T Q. dS goes through shared memory too, for dQ = dS K, which each step
/// computes for the step before: the block meets once a step. Warps that share keys (BackwardConfig::hdim_split) also
/// pass each other P and dS there.
#pragma once

#include <hip/hip_runtime.h>

#include <type_traits>

#include "band.cuh"
#include "dq_tile.cuh"
#include "fmhax/contract/params.hpp"
#include "mma.cuh"
#include "row_dots.cuh"
#include "score_tile.cuh"
#include "tile_copy.cuh"
#include "tile_job.cuh"

namespace fmhax::portable {

/// `Instance` has a constexpr BackwardConfig kConfig.
template <class Instance>
struct BackwardKernel {
  static constexpr BackwardConfig kConfig = Instance::kConfig;
  static constexpr DataType kType = kConfig.dtype;
  static constexpr int kM = kConfig.kM;
  static constexpr int kN = kConfig.tile_keys();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kSplit = kConfig.hdim_split;
  static constexpr int kKeyTiles = kConfig.key_tiles;
  static constexpr int kPitchQ = kConfig.pitch_q();
  static constexpr int kPitchV = kConfig.pitch_v();
  static constexpr int kPitchS = kConfig.pitch_s();
  static constexpr int kDepthQ = kConfig.hdim_q / 16;
  static constexpr int kDepthV = kConfig.hdim_v / 16;
  static constexpr int kRowTiles = kM / 16;
  static constexpr int kScoredTiles = kRowTiles / kSplit;
  static constexpr int kTilesQ = kDepthQ / kSplit;  ///< of dk, a warp's share
  static constexpr int kTilesV = kDepthV / kSplit;  ///< of dv
  static constexpr int kDqWarpsM = kConfig.dq_warps_m;
  static constexpr int kDqWarpsN = kConfig.warps / kDqWarpsM;
  static constexpr int kDqTilesM = kRowTiles / kDqWarpsM;
  static constexpr int kDqTilesN = kDepthQ / kDqWarpsN;
  static constexpr int kDqTilesAtOnce = kDqTilesN % 4 == 0 ? kDqTilesN / 2 : kDqTilesN;
  static_assert(kDqTilesM * kDqWarpsM == kRowTiles && kDqTilesN * kDqWarpsN == kDepthQ);
  static_assert(kScoredTiles * kSplit == kRowTiles && kTilesQ * kSplit == kDepthQ && kTilesV * kSplit == kDepthV);

  using CopyK = TileCopy<kN, kConfig.hdim_q, kPitchQ, kThreads>;
  using CopyV = TileCopy<kN, kConfig.hdim_v, kPitchV, kThreads>;
  using CopyQ = TileCopy<kM, kConfig.hdim_q, kPitchQ, kThreads>;
  using CopyDout = TileCopy<kM, kConfig.hdim_v, kPitchV, kThreads>;

  struct Shared {
    std::uint16_t k[kConfig.k_elements()];
    std::uint16_t v[kConfig.v_elements()];
    std::uint16_t q[2][kConfig.q_elements()];
    std::uint16_t dout[2][kConfig.dout_elements()];
    std::uint16_t ds[2][kConfig.ds_elements()];
    std::uint16_t p[kSplit > 1 ? kConfig.ds_elements() : 0];
    float4 stats[2][kM / 2];  ///< lse and d of two rows: {lse, lse, d, d}
    TileJob job;
  };

  /// Where a thread reads the next query tile from, and which tile that is.
  struct Cursor {
    const std::uint16_t* q;
    const std::uint16_t* dout;
    const float* stats;  ///< of lse or of d, whichever the thread brings
    int head;            ///< within the key head's group
    int row;
  };
  /// Where a thread writes dq of a step.
  struct DqCursor {
    unsigned char* target;
    int head;
    int row;
  };

  const KernelParams& params;
  const BackwardArguments& arguments;
  Shared& shared;
  const TileJob& job;
  /// Read from shared memory time and again where registers are short.
  static constexpr bool kKeepsNumbers = kConfig.hdim_q < 128 && kConfig.hdim_v < 128;
  std::conditional_t<kKeepsNumbers, TileNumbers, const TileNumbers&> tile;
  const int thread, lane;

  __device__ BackwardKernel(const KernelParams& p, const BackwardArguments& a, Shared& s)
      : params(p),
        arguments(a),
        shared(s),
        job(s.job),
        tile(s.job.tile),
        thread(static_cast<int>(threadIdx.x)),
        lane(lane_id()) {}

  __device__ int warp() const { return thread / kLanes; }
  __device__ int warp_keys() const { return warp() / kSplit * 16 * kKeyTiles; }
  __device__ int half() const { return warp() % kSplit; }
  /// Plain instances are for rows that begin at multiples of 16 bytes.
  __device__ bool is_aligned() const { return !kConfig.has_features || arguments.is_aligned; }
  __device__ int hdim_q() const { return static_cast<int>(params.problem.hdim_q); }
  __device__ int hdim_v() const { return static_cast<int>(params.problem.hdim_v); }

  __device__ std::int64_t offset_of(const TensorRef& t, const SequenceRange& range, std::int64_t row,
                                    std::int64_t head) const {
    const std::int64_t batch = params.problem.is_group_mode ? 0 : job.sequence * t.stride_batch;
    return batch + (range.start + row) * t.stride_seqlen + head * t.stride_nhead;
  }
  __device__ std::uint16_t* rows_of(const TensorRef& t, const SequenceRange& range, std::int64_t row,
                                    std::int64_t head) const {
    return static_cast<std::uint16_t*>(t.data) + offset_of(t, range, row, head);
  }
  __device__ std::int64_t head_q(int head) const { return job.head_k * tile.group + head; }

  __device__ void load_keys() {
    const int rows = tile.seqlen_k - tile.key_begin;
    CopyK::run(thread, shared.k,
               CopyK::source(thread, rows_of(params.k, job.k, tile.key_begin, job.head_k), params.k.stride_seqlen),
               params.k.stride_seqlen, rows, hdim_q(), is_aligned());
    CopyV::run(thread, shared.v,
               CopyV::source(thread, rows_of(params.v, job.k, tile.key_begin, job.head_k), params.v.stride_seqlen),
               params.v.stride_seqlen, rows, hdim_v(), is_aligned());
  }

  static constexpr int kStatsThreads = kThreads < 2 * kM ? kThreads / 2 : kM;
  static_assert(kM % kStatsThreads == 0);
  // A thread brings the number that lies at its own place in `stats`.
  __device__ bool brings_d() const { return (thread & 2) != 0; }
  __device__ int stats_row() const { return thread / 4 * 2 + thread % 2; }

  /// At the first row of a head.
  __device__ void move_to_head(Cursor& at) const {
    at.row = tile.first_row;
    const std::int64_t head = head_q(at.head);
    at.q = CopyQ::source(thread, rows_of(params.q, job.q, tile.first_row, head), params.q.stride_seqlen);
    at.dout = CopyDout::source(thread, rows_of(params.dout, job.q, tile.first_row, head), params.dout.stride_seqlen);
    const TensorRef& t = brings_d() ? params.d : params.lse;
    at.stats = static_cast<const float*>(t.data) + offset_of(t, job.q, tile.first_row + stats_row(), head);
  }

  __device__ void advance(Cursor& at) const {
    at.row += kM;
    if (at.row < tile.end_row) {
      at.q += kM * params.q.stride_seqlen;
      at.dout += kM * params.dout.stride_seqlen;
      at.stats += kM * (brings_d() ? params.d : params.lse).stride_seqlen;
    } else if (++at.head < tile.group) {
      move_to_head(at);
    }
  }

  /// `rows` of the tile are real.
  __device__ void load_step(const Cursor& at, int stage, int rows) {
    CopyQ::run(thread, shared.q[stage], at.q, params.q.stride_seqlen, rows, hdim_q(), is_aligned());
    CopyDout::run(thread, shared.dout[stage], at.dout, params.dout.stride_seqlen, rows, hdim_v(), is_aligned());
    auto* stats = reinterpret_cast<float*>(shared.stats[stage]) + thread;
    const std::int64_t stride = (brings_d() ? params.d : params.lse).stride_seqlen;
#pragma unroll
    for (int i = 0; i < kM; i += kStatsThreads) {
      if (thread < 2 * kStatsThreads && !(kConfig.is_direct && brings_d())) {
        copy4_async(stats + 2 * i, at.stats + i * stride, stats_row() + i < rows);
      }
    }
  }

  using Dots = RowDots<kType, kM, kThreads, kConfig.hdim_v>;

  /// Asks for what d of the tile is made of, for direct kernels.
  __device__ void load_row_parts(const Cursor& at, typename Dots::Parts& parts) const {
    const int row = at.row + Dots::row(thread);
    const bool is_row = Dots::row(thread) < kM && row < tile.seqlen_q;
    const std::int64_t head = head_q(at.head);
    Dots::load(thread, is_row, rows_of(params.dout, job.q, row, head), rows_of(params.o, job.q, row, head), hdim_v(),
               is_aligned(), parts);
    parts.dlse = 0;
    if (params.problem.has_dlse && is_row) {
      parts.dlse = static_cast<const float*>(params.dlse.data)[offset_of(params.dlse, job.q, row, head)];
    }
  }

  __device__ void finish_d(const typename Dots::Parts& parts, int stage) {
    const float sum = Dots::sum(parts);
    const int row = Dots::row(thread);
    if (row < kM && Dots::is_first(thread)) {
      reinterpret_cast<float*>(shared.stats[stage])[row / 2 * 4 + row % 2 + 2] = sum - parts.dlse;
    }
  }

  /// Some key of the tile may be hidden from some row of the step, or lie beyond the sequence.
  __device__ bool needs_mask(int row) const {
    const int last_key = tile.key_begin + kN - 1;
    return last_key >= tile.seqlen_k || last_key > row + tile.band.high ||
           tile.key_begin < row + kM - 1 + tile.band.low;
  }

  /// Whether some row of a masked step sees some of this warp's keys.
  __device__ bool takes_part(int row) const {
    const int first_key = tile.key_begin + warp_keys();
    const int last_key = first_key + 16 * kKeyTiles - 1;
    return first_key < tile.seqlen_k && first_key <= row + kM - 1 + tile.band.high && last_key >= row + tile.band.low;
  }

  /// S^T and dP^T of this warp's keys; P^T and dS^T as operands.
  template <bool kIsMasked>
  __device__ void score(int row, int head, int stage, Operand (&p)[kKeyTiles][kScoredTiles],
                        Operand (&ds)[kKeyTiles][kScoredTiles]) {
    const int rows = half() * kScoredTiles * 16;
    Accumulator s[kKeyTiles][kScoredTiles] = {};
    multiply_tiles<kDepthQ, kPitchQ>(s, shared.k + warp_keys() * kPitchQ, shared.q[stage] + rows * kPitchQ);
    const float4* stats = shared.stats[stage] + rows / 2;
    if constexpr (!kConfig.has_features) {
      exponentiate(stats, s);
      if constexpr (kIsMasked) hide(row + rows, s);
    }
    Accumulator dp[kKeyTiles][kScoredTiles] = {};
    multiply_tiles<kDepthV, kPitchV>(dp, shared.v + warp_keys() * kPitchV, shared.dout[stage] + rows * kPitchV);
    if constexpr (kConfig.has_features) {
      finish_with_features(row + rows, head, stats, s, dp);
    } else {
      differentiate(stats, s, dp);
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

  /// sums[m][i] += keys_m * rows_i^T
  template <int kDepth, int kPitch>
  __device__ void multiply_tiles(Accumulator (&sums)[kKeyTiles][kScoredTiles], const std::uint16_t* keys,
                                 const std::uint16_t* rows) const {
    keys += left_offset(kPitch, lane);
    rows += right_transposed_offset(kPitch, lane);
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      Operand left[kKeyTiles];
#pragma unroll
      for (int m = 0; m < kKeyTiles; ++m) left[m] = load_left(keys + m * 16 * kPitch + depth * 16);
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) {
        const Operand right = load_right_transposed(rows + i * 16 * kPitch + depth * 16);
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) multiply<kType>(sums[m][i], left[m], right);
      }
    }
  }

  /// The rows' lse and d of a lane's columns 2 * pair and 2 * pair + 1 in tile i.
  __device__ float4 stats_of(const float4* stats, int i, int pair) const {
    return stats[i * 8 + Accumulator::column(2 * pair, lane) / 2];
  }

  /// From this lane's first of the rows from `first` on, and its first key. Made of the mask anew: the compiler would
  /// read tile.band too early, and keep it in registers that are short.
  __device__ LocalBand local_band(int first) const {
    return Band::of(params.problem.mask, tile.seqlen_q, tile.seqlen_k)
        .from(first + Accumulator::column(0, lane), tile.key_begin + warp_keys() + Accumulator::row(0, lane),
              tile.seqlen_k);
  }
  static constexpr __device__ int row_of(int i, int c) { return i * 16 + Accumulator::column(c, 0); }
  static constexpr __device__ int key_of(int m, int r) { return m * 16 + Accumulator::row(r, 0); }

  /// P of keys that their rows don't see becomes 0.
  __device__ void hide(int first, Accumulator (&p)[kKeyTiles][kScoredTiles]) const {
    const LocalBand band = local_band(first);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
#pragma unroll
          for (int r = 0; r < Accumulator::kRows; ++r) {
            if (band.hides(row_of(i, c), key_of(m, r))) p[m][i].value[Accumulator::element(r, c)] = 0;
          }
        }
      }
    }
  }

  /// s becomes P.
  __device__ void exponentiate(const float4* stats, Accumulator (&s)[kKeyTiles][kScoredTiles]) const {
    const float scale = params.scale * kLog2E;
#pragma unroll
    for (int i = 0; i < kScoredTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair) {
        const float4 of_rows = stats_of(stats, i, pair);
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
  __device__ void differentiate(const float4* stats, const Accumulator (&p)[kKeyTiles][kScoredTiles],
                                Accumulator (&dp)[kKeyTiles][kScoredTiles]) const {
#pragma unroll
    for (int i = 0; i < kScoredTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair) {
        const float4 of_rows = stats_of(stats, i, pair);
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

  /// s becomes P as dropout leaves it, dp becomes dS on its way to dq and dk.
  __device__ void finish_with_features(int first, int head, const float4* stats,
                                       Accumulator (&s)[kKeyTiles][kScoredTiles],
                                       Accumulator (&dp)[kKeyTiles][kScoredTiles]) const {
    const LogitFeatures logits = logit_features(params, job.sequence, head_q(head), job.q, job.k);
    const DropoutFeatures dropout = dropout_features(params, job.sequence, head_q(head));
    const LocalBand band = local_band(first);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
      const int first_key = tile.key_begin + warp_keys() + m * 16;
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) {
        float factors[1][Accumulator::kRows * Accumulator::kColumns];
        if (dropout.is_on) {
          dropout_factors<true>(
              dropout, [&](int) { return make_int2(first + i * 16, first_key); }, factors);
        }
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
          const float4 of_rows = stats_of(stats, i, c / 2);
          const float lse = c % 2 == 0 ? of_rows.x : of_rows.y;
          const float d = c % 2 == 0 ? of_rows.z : of_rows.w;
          const int row = first + i * 16 + Accumulator::column(c, lane);
          const bool has_row = row < tile.seqlen_q && lse != -INFINITY;
#pragma unroll
          for (int r = 0; r < Accumulator::kRows; ++r) {
            const int e = Accumulator::element(r, c);
            const int key = first_key + Accumulator::row(r, lane);
            const Logit logit = logits.logit<kType>(s[m][i].value[e] * params.scale, row, key);
            const bool counts = has_row && !band.hides(row_of(i, c), key_of(m, r));
            const float p = counts ? arch::fast_exp2((logit.value - lse) * kLog2E) : 0.0F;
            const float factor = dropout.is_on ? factors[0][e] : 1.0F;
            s[m][i].value[e] = p * factor;
            dp[m][i].value[e] = p * (dp[m][i].value[e] * factor - d) * logit.slope;
          }
        }
      }
    }
  }

  /// The bytes behind dropout for all rows and the keys of this tile, where they are asked for.
  __device__ void store_random_values() const {
    if (!params.problem.stores_random_values) return;
    const IndexRange keys{tile.key_begin, min(job.k.logical, static_cast<std::int64_t>(tile.key_begin + kN))};
    for (int head = 0; head < tile.group; ++head) {
      portable::store_random_values<kThreads>(params, dropout_features(params, job.sequence, head_q(head)),
                                              job.sequence, head_q(head), job.q, {0, tile.seqlen_q}, keys);
    }
  }

  __device__ void move_to_head(DqCursor& at) const {
    at.row = tile.first_row;
    const Problem& p = params.problem;
    const std::int64_t row = tile.first_row + warp() / kDqWarpsN * kDqTilesM * 16;
    const std::int64_t column = warp() % kDqWarpsN * kDqTilesN * 16;
    if constexpr (kConfig.is_direct) {
      at.target = reinterpret_cast<unsigned char*>(rows_of(params.dq, job.q, row + quad_row(0, lane), head_q(at.head)) +
                                                   column + packed_column(lane));
    } else {
      const std::int64_t nsplits = p.is_deterministic ? params.nsplits[p.is_group_mode ? job.sequence : 0] : 1;
      const std::int64_t begin = p.is_group_mode ? params.dq_acc_offsets[job.sequence]
                                                 : job.sequence * p.nhead_q * nsplits * job.q.physical * p.hdim_q;
      const std::int64_t rows = (head_q(at.head) * nsplits + job.split) * job.q.physical + row;
      at.target = reinterpret_cast<unsigned char*>(static_cast<float*>(params.dq_acc) + begin + rows * p.hdim_q +
                                                   column * kDqGroupRows + quad_place(lane));
    }
  }

  __device__ std::int64_t dq_row_bytes() const {
    return kConfig.is_direct ? params.dq.stride_seqlen * 2 : params.problem.hdim_q * 4;
  }

  __device__ void advance(DqCursor& at) const {
    at.row += kM;
    if (at.row < tile.end_row) {
      at.target += kM * dq_row_bytes();
    } else if (++at.head < tile.group) {
      move_to_head(at);
    }
  }

  /// dq of a step whose dS lies in shared memory; a warp's columns in two halves where they are many, so that the first
  /// are on their way to memory while the others are computed.
  __device__ void finish_dq(const DqCursor& at, int stage) {
#pragma unroll
    for (int first = 0; first < kDqTilesN; first += kDqTilesAtOnce) finish_dq_columns(at, stage, first);
  }

  __device__ void finish_dq_columns(const DqCursor& at, int stage, int first) {
    Accumulator dq[kDqTilesM][kDqTilesAtOnce] = {};
    const int tile_m = warp() / kDqWarpsN * kDqTilesM;
    const int tile_n = warp() % kDqWarpsN * kDqTilesN + first;
    const std::uint16_t* ds = shared.ds[stage] + tile_m * 16 + left_transposed_offset(kPitchS, lane);
    const std::uint16_t* k = shared.k + tile_n * 16 + right_offset(kPitchQ, lane);
    const auto multiply_keys = [&](int key) {
      Operand left[kDqTilesM];
#pragma unroll
      for (int m = 0; m < kDqTilesM; ++m) left[m] = load_left_transposed(ds + key * kPitchS + m * 16);
#pragma unroll
      for (int n = 0; n < kDqTilesAtOnce; ++n) {
        const Operand right = load_right(k + key * kPitchQ + n * 16);
#pragma unroll
        for (int m = 0; m < kDqTilesM; ++m) multiply<kType>(dq[m][n], left[m], right);
      }
    };
    if constexpr (kConfig.is_direct) {
      const Band& band = tile.band;
      const int end = min(min(tile.seqlen_k, kN), at.row + kM + band.high);
#pragma unroll 2
      for (int key = max(at.row + band.low, 0) / 16 * 16; key < end; key += 16) multiply_keys(key);
      const int rows = static_cast<int>(job.q.physical) - at.row - tile_m * 16;
      store_dq<kType>(dq, at.target, dq_row_bytes(), first * 16, rows, hdim_q() - tile_n * 16, params.scale,
                      is_aligned(), lane);
    } else {
#pragma unroll kConfig.dq_unroll
      for (int key = 0; key < kN; key += 16) multiply_keys(key);
      add_to_dq_acc(dq, at.target + first * 16 * kDqGroupRows * 4, params.problem.hdim_q, tile_n * 16,
                    {at.row + tile_m * 16, job.q.physical, tile.seqlen_q}, hdim_q() - tile_n * 16,
                    params.problem.is_deterministic, job.adds, lane);
    }
  }

  /// dk and dv of the job's first tile, and what it adds to dq: in deterministic mode to what the split holds, or over
  /// it.
  __device__ void run() {
    if constexpr (kKeepsNumbers) tile = job.tile;
    if constexpr (kConfig.has_features) store_random_values();
    Accumulator dk[kKeyTiles][kTilesQ] = {};
    Accumulator dv[kKeyTiles][kTilesV] = {};
    load_keys();
    const int steps = tile.first_row < tile.end_row ? (tile.end_row - tile.first_row + kM - 1) / kM * tile.group : 0;
    Cursor next{};
    DqCursor dq{};
    if (steps > 0) {
      move_to_head(next);
      move_to_head(dq);
      load_step(next, 0, tile.seqlen_q - next.row);
      if constexpr (kConfig.is_direct) {
        typename Dots::Parts parts;
        load_row_parts(next, parts);
        finish_d(parts, 0);
      }
      advance(next);
    }
    for (int index = 0; index < steps; ++index) {
      const int stage = index & 1;
      wait_for_copies();
      __syncthreads();
      [[maybe_unused]] typename Dots::Parts parts;
      if (index + 1 < steps) {
        load_step(next, stage ^ 1, tile.seqlen_q - next.row);
        if constexpr (kConfig.is_direct) load_row_parts(next, parts);
      }
      if (index > 0) {
        finish_dq(dq, stage ^ 1);
        advance(dq);
      }
      const bool is_masked = needs_mask(dq.row);
      if (is_masked) {
        step<true>(dq.row, dq.head, stage, dk, dv);
      } else {
        step<false>(dq.row, dq.head, stage, dk, dv);
      }
      if (index + 1 < steps) {
        if constexpr (kConfig.is_direct) finish_d(parts, stage ^ 1);
        advance(next);
      }
    }
    wait_for_copies();
    __syncthreads();
    if (steps > 0) finish_dq(dq, (steps - 1) & 1);
    write_keys<kTilesQ>(params.dk, dk, hdim_q(), params.scale);
    write_keys<kTilesV>(params.dv, dv, hdim_v(), 1.0F);
  }

  /// One query tile: its part of dk and dv, and its dS for dq.
  template <bool kIsMasked>
  __device__ void step(int row, int head, int stage, Accumulator (&dk)[kKeyTiles][kTilesQ],
                       Accumulator (&dv)[kKeyTiles][kTilesV]) {
    Operand p[kKeyTiles][kScoredTiles] = {}, ds[kKeyTiles][kScoredTiles] = {};
    const int own = half() * kScoredTiles * 16;
    if (kIsMasked && !takes_part(row)) {
      // Every warp meets as many barriers as the others: racecheck loses count where some leave one out.
      if constexpr (kSplit > 1) sync_warps(warp() / kSplit, kSplit);
      return store_operands(shared.ds[stage], own, ds);
    }
    score<kIsMasked>(row, head, stage, p, ds);
    store_operands(shared.ds[stage], own, ds);
    if constexpr (kSplit > 1) store_operands(shared.p, own, p);
    const std::uint16_t* dout = shared.dout[stage] + half() * kTilesV * 16 + right_offset(kPitchV, lane);
    const std::uint16_t* q = shared.q[stage] + half() * kTilesQ * 16 + right_offset(kPitchQ, lane);
    accumulate<kTilesV, kPitchV>(dv, p, dout + own * kPitchV);
    accumulate<kTilesQ, kPitchQ>(dk, ds, q + own * kPitchQ);
    if constexpr (kSplit > 1) {
      const int others = kScoredTiles * 16 - own;
      sync_warps(warp() / kSplit, kSplit);
      load_operands(shared.p, others, p);
      accumulate<kTilesV, kPitchV>(dv, p, dout + others * kPitchV);
      load_operands(shared.ds[stage], others, ds);
      accumulate<kTilesQ, kPitchQ>(dk, ds, q + others * kPitchQ);
    }
  }

  /// This warp's keys and the rows from `row` on, in a tile of shared memory with keys as rows.
  __device__ void store_operands(std::uint16_t* operands, int row,
                                 const Operand (&from)[kKeyTiles][kScoredTiles]) const {
    std::uint16_t* to = operands + warp_keys() * kPitchS + row + store_offset(kPitchS, lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) store_operand(to + m * 16 * kPitchS + i * 16, kPitchS, from[m][i]);
    }
  }
  __device__ void load_operands(const std::uint16_t* operands, int row, Operand (&to)[kKeyTiles][kScoredTiles]) const {
    const std::uint16_t* from = operands + warp_keys() * kPitchS + row + left_offset(kPitchS, lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) to[m][i] = load_left(from + m * 16 * kPitchS + i * 16);
    }
  }

  /// sums[m][n] += left[m][i] * rows_i, summed over i; rows come with this lane's offset.
  template <int kTiles, int kPitch>
  __device__ static void accumulate(Accumulator (&sums)[kKeyTiles][kTiles],
                                    const Operand (&left)[kKeyTiles][kScoredTiles], const std::uint16_t* rows) {
#pragma unroll
    for (int i = 0; i < kScoredTiles; ++i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const Operand right = load_right(rows + i * 16 * kPitch + n * 16);
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) multiply<kType>(sums[m][n], left[m][i], right);
      }
    }
  }

  template <int kTiles>
  __device__ void write_keys(const TensorRef& t, const Accumulator (&sums)[kKeyTiles][kTiles], int hdim, float scale) {
    const int first_column = half() * kTiles * 16 + packed_column(lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int row = tile.key_begin + warp_keys() + m * 16 + quad_row(i, lane);
        std::uint16_t* target = rows_of(t, job.k, row, job.head_k) + first_column;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const uint2 four = packed_quad<kType>(sums[m][n], i, scale, lane);
          if (row < job.k.physical && first_column + n * 16 < hdim) store_packed(target + n * 16, four, is_aligned());
        }
      }
    }
  }
};

}  // namespace fmhax::portable
