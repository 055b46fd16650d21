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

#include "arch/mma.cuh"
#include "band.cuh"
#include "dq_tile.cuh"
#include "fmhax/contract/params.hpp"
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
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kHoldsKeys = kConfig.holds_keys;
  static constexpr int kPitchK = kConfig.pitch_k();
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
  static constexpr bool kMasksInOneStep = kHoldsKeys;  ///< else a step that needs no mask has code of its own
  static constexpr int kDqStep = kHoldsKeys ? 16 * kDeepTiles : 16;  ///< keys of one product on the way to dq
  static_assert(kDqTilesM * kDqWarpsM == kRowTiles && kDqTilesN * kDqWarpsN == kDepthQ && kN % kDqStep == 0);
  static_assert(kScoredTiles * kSplit == kRowTiles && kTilesQ * kSplit == kDepthQ && kTilesV * kSplit == kDepthV);

  static_assert(kDepthQ % kDeepTiles == 0 && kDepthV % kDeepTiles == 0);
  static_assert(kConfig.lanes == kLanes && kHoldsKeys == kStoresTransposed && (kSplit == 1 || !kHoldsKeys));

  using CopyK = TileCopy<kN, kConfig.hdim_q, kPitchQ, kThreads>;
  using CopyV = TileCopy<kN, kConfig.hdim_v, kPitchV, kThreads>;
  using CopyQ = TileCopy<kM, kConfig.hdim_q, kPitchQ, kThreads>;
  using CopyDout = TileCopy<kM, kConfig.hdim_v, kPitchV, kThreads>;

  struct Shared {
    std::uint16_t k[kConfig.k_elements()];
    std::uint16_t v[kConfig.v_elements()];
    std::uint16_t q[kStages][kConfig.q_elements()];
    std::uint16_t dout[kStages][kConfig.dout_elements()];
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
  const bool is_deterministic;

  __device__ BackwardKernel(const KernelParams& p, const BackwardArguments& a, Shared& s)
      : params(p),
        arguments(a),
        shared(s),
        job(s.job),
        tile(s.job.tile),
        thread(static_cast<int>(threadIdx.x)),
        lane(lane_id()),
        is_deterministic(p.problem.is_deterministic) {}

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

  static constexpr int kStatsThreads = kThreads < 2 * kM ? kThreads / 2 : kM;
  static_assert(kM % kStatsThreads == 0);

  /// A warp's rows of k and v, where it holds them.
  struct HeldKeys {
    DeepOperand k[kKeyTiles][kDepthQ / kDeepTiles];
    DeepOperand v[kKeyTiles][kDepthV / kDeepTiles];
  };
  /// What of a step's copies passes through a thread's registers.
  struct HeldStep {
    typename CopyQ::Held q;
    typename CopyDout::Held dout;
    float stats[kM / kStatsThreads];
  };

  template <class Deep, int kDepth>
  __device__ void hold(const TensorRef& t, int hdim, Deep (&to)[kKeyTiles][kDepth]) const {
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
      const int row = tile.key_begin + warp_keys() + m * 16 + Deep::row(lane);
      const std::uint16_t* from = rows_of(t, job.k, row, job.head_k) + Deep::column(lane);
#pragma unroll
      for (int depth = 0; depth < kDepth; ++depth) {
        const int column = depth * 16 * kDeepTiles;
        const bool is_real = row < tile.seqlen_k && column + Deep::column(lane) < hdim;
        to[m][depth] = Deep::of(is_real ? load_chunk(from + column, is_aligned()) : make_uint4(0, 0, 0, 0));
      }
    }
  }
  /// k along the keys.
  template <class Deep, int kDepth>
  __device__ void store_held(const Deep (&held)[kKeyTiles][kDepth]) {
    std::uint16_t* to = shared.k + warp_keys() + Deep::store_offset(kPitchK, lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int depth = 0; depth < kDepth; ++depth) {
        held[m][depth].store(to + depth * 16 * kDeepTiles * kPitchK + m * 16, kPitchK);
      }
    }
  }

  __device__ void load_keys(HeldKeys& held) {
    if constexpr (kHoldsKeys) {
      hold(params.k, hdim_q(), held.k);
      hold(params.v, hdim_v(), held.v);
      store_held(held.k);
    } else {
      copy_keys();
    }
  }

  __device__ void copy_keys() {
    const int rows = tile.seqlen_k - tile.key_begin;
    CopyK::run(thread, shared.k,
               CopyK::source(thread, rows_of(params.k, job.k, tile.key_begin, job.head_k), params.k.stride_seqlen),
               params.k.stride_seqlen, rows, hdim_q(), is_aligned());
    CopyV::run(thread, shared.v,
               CopyV::source(thread, rows_of(params.v, job.k, tile.key_begin, job.head_k), params.v.stride_seqlen),
               params.v.stride_seqlen, rows, hdim_v(), is_aligned());
  }

  // A thread brings the number that lies at its own place in `stats`.
  __device__ bool brings_d() const { return (thread & 2) != 0; }
  __device__ int stats_row() const { return thread / 4 * 2 + thread % 2; }

  /// At the first row of a head.
  __device__ void move_to_head(Cursor& at) const {
    const KernelParams& again = arch::read_again<0>(params);
    at.row = tile.first_row;
    const std::int64_t head = head_q(at.head);
    at.q = CopyQ::source(thread, rows_of(again.q, job.q, tile.first_row, head), again.q.stride_seqlen);
    at.dout = CopyDout::source(thread, rows_of(again.dout, job.q, tile.first_row, head), again.dout.stride_seqlen);
    const TensorRef& t = brings_d() ? again.d : again.lse;
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

  __device__ bool brings_stats() const { return thread < 2 * kStatsThreads && !(kConfig.is_direct && brings_d()); }
  __device__ float* stats_place(int stage) { return reinterpret_cast<float*>(shared.stats[stage]) + thread; }

  /// Begins the copies of a step, and ends them; `rows` of the tile are real.
  __device__ void begin_step(const Cursor& at, int index, int rows, HeldStep& held) {
    CopyQ::begin(thread, shared.q[index % kStages], at.q, params.q.stride_seqlen, rows, hdim_q(), is_aligned(), held.q);
    CopyDout::begin(thread, shared.dout[index % kStages], at.dout, params.dout.stride_seqlen, rows, hdim_v(),
                    is_aligned(), held.dout);
    const std::int64_t stride = (brings_d() ? params.d : params.lse).stride_seqlen;
#pragma unroll
    for (int i = 0; i < kM; i += kStatsThreads) {
      if (!brings_stats()) break;
      begin_copy4(stats_place(index % 2) + 2 * i, at.stats + i * stride, stats_row() + i < rows,
                  held.stats[i / kStatsThreads]);
    }
  }
  __device__ void end_step(int index, const HeldStep& held) {
    CopyQ::end(thread, shared.q[index % kStages], held.q);
    CopyDout::end(thread, shared.dout[index % kStages], held.dout);
#pragma unroll
    for (int i = 0; i < kM; i += kStatsThreads) {
      if (brings_stats()) end_copy4(stats_place(index % 2) + 2 * i, held.stats[i / kStatsThreads]);
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
  template <bool kCanBeMasked>
  __device__ __forceinline__ void score(int row, int head, int index, bool is_masked, const HeldKeys& held,
                                        Operand (&p)[kKeyTiles][kScoredTiles], Operand (&ds)[kKeyTiles][kScoredTiles]) {
    const int rows = half() * kScoredTiles * 16;
    Accumulator s[kKeyTiles][kScoredTiles] = {};
    multiply_tiles<kDepthQ, kPitchQ>(s, held.k, shared.k + warp_keys() * kPitchQ,
                                     shared.q[index % kStages] + rows * kPitchQ);
    const float4* stats = shared.stats[index % 2] + rows / 2;
    if constexpr (!kConfig.has_features) {
      exponentiate(stats, s);
      if (kCanBeMasked && is_masked) hide(row + rows, s);
    }
    Accumulator dp[kKeyTiles][kScoredTiles] = {};
    multiply_tiles<kDepthV, kPitchV>(dp, held.v, shared.v + warp_keys() * kPitchV,
                                     shared.dout[index % kStages] + rows * kPitchV);
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

  /// sums[m][i] += keys_m * rows_i^T; the keys are held or lie in shared memory.
  template <int kDepth, int kPitch>
  __device__ void multiply_tiles(Accumulator (&sums)[kKeyTiles][kScoredTiles],
                                 const DeepOperand (&held)[kKeyTiles][kDepth / kDeepTiles], const std::uint16_t* keys,
                                 const std::uint16_t* rows) const {
    keys += left_deep_offset(kPitch, lane);
    rows += right_deep_offset(kPitch, lane);
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += kDeepTiles) {
      DeepOperand left[kKeyTiles];
#pragma unroll
      for (int m = 0; m < kKeyTiles; ++m) {
        left[m] = kHoldsKeys ? held[m][depth / kDeepTiles] : load_left_deep(keys + m * 16 * kPitch + depth * 16);
      }
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) {
        const DeepOperand right = load_right_deep(rows + i * 16 * kPitch + depth * 16);
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
    const KernelParams& again = arch::read_again<0>(params);
    at.row = tile.first_row;
    const Problem& p = again.problem;
    const std::int64_t row = tile.first_row + warp() / kDqWarpsN * kDqTilesM * 16;
    const std::int64_t column = warp() % kDqWarpsN * kDqTilesN * 16;
    if constexpr (kConfig.is_direct) {
      at.target = reinterpret_cast<unsigned char*>(rows_of(again.dq, job.q, row + quad_row(0, lane), head_q(at.head)) +
                                                   column + packed_column(lane));
    } else {
      constexpr int kGroupRows = DqOrder::kGroupRows;
      const std::int64_t nsplits = p.is_deterministic ? again.nsplits[p.is_group_mode ? job.sequence : 0] : 1;
      const std::int64_t begin = p.is_group_mode ? again.dq_acc_offsets[job.sequence]
                                                 : job.sequence * p.nhead_q * nsplits * job.q.physical * p.hdim_q;
      const std::int64_t rows = (head_q(at.head) * nsplits + job.split) * job.q.physical + row;
      at.target = reinterpret_cast<unsigned char*>(static_cast<float*>(again.dq_acc) + begin + rows * p.hdim_q +
                                                   column * kGroupRows + quad_place(kGroupRows, 16, lane));
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
    const std::uint16_t* ds = shared.ds[stage];
    const std::uint16_t* k = shared.k;
    if constexpr (kHoldsKeys) {
      ds += tile_m * 16 * kPitchS + left_deep_offset(kPitchS, lane);
      k += tile_n * 16 * kPitchK + right_deep_offset(kPitchK, lane);
    } else {
      ds += tile_m * 16 + left_transposed_offset(kPitchS, lane);
      k += tile_n * 16 + right_offset(kPitchK, lane);
    }
    const auto multiply_keys = [&](int key) {
      if constexpr (kHoldsKeys) {
        DeepOperand left[kDqTilesM];
#pragma unroll
        for (int m = 0; m < kDqTilesM; ++m) left[m] = load_left_deep(ds + m * 16 * kPitchS + key);
#pragma unroll
        for (int n = 0; n < kDqTilesAtOnce; ++n) {
          const DeepOperand right = load_right_deep(k + n * 16 * kPitchK + key);
#pragma unroll
          for (int m = 0; m < kDqTilesM; ++m) multiply<kType>(dq[m][n], left[m], right);
        }
      } else {
        Operand left[kDqTilesM];
#pragma unroll
        for (int m = 0; m < kDqTilesM; ++m) left[m] = load_left_transposed(ds + key * kPitchS + m * 16, kPitchS);
#pragma unroll
        for (int n = 0; n < kDqTilesAtOnce; ++n) {
          const Operand right = load_right(k + key * kPitchK + n * 16, kPitchK);
#pragma unroll
          for (int m = 0; m < kDqTilesM; ++m) multiply<kType>(dq[m][n], left[m], right);
        }
      }
    };
    if constexpr (kConfig.is_direct) {
      const Band& band = tile.band;
      const int end = min(min(tile.seqlen_k, kN), at.row + kM + band.high);
#pragma unroll 2
      for (int key = max(at.row + band.low, 0) / kDqStep * kDqStep; key < end; key += kDqStep) multiply_keys(key);
      const int rows = static_cast<int>(job.q.physical) - at.row - tile_m * 16;
      store_dq<kType>(dq, at.target, dq_row_bytes(), first * 16, rows, hdim_q() - tile_n * 16, params.scale,
                      is_aligned(), lane);
    } else {
#pragma unroll kConfig.dq_unroll
      for (int key = 0; key < kN; key += kDqStep) multiply_keys(key);
      add_to_dq_acc(dq, at.target + first * 16 * DqOrder::kGroupRows * 4, params.problem.hdim_q, tile_n * 16,
                    {at.row + tile_m * 16, job.q.physical, tile.seqlen_q}, hdim_q() - tile_n * 16, is_deterministic,
                    job.adds, lane);
    }
  }

  /// dk and dv of the job's first tile, and what it adds to dq: in deterministic mode to what the split holds, or over
  /// it.
  __device__ void run() {
    if constexpr (kKeepsNumbers) tile = job.tile;
    if constexpr (kConfig.has_features) store_random_values();
    Accumulator dk[kKeyTiles][kTilesQ];
    Accumulator dv[kKeyTiles][kTilesV];
    set_to_zero(dk);
    set_to_zero(dv);
    HeldKeys keys;
    load_keys(keys);
    const int steps = tile.first_row < tile.end_row ? (tile.end_row - tile.first_row + kM - 1) / kM * tile.group : 0;
    Cursor next{};
    DqCursor dq{};
    if (steps > 0) {
      move_to_head(next);
      move_to_head(dq);
      HeldStep held;
      begin_step(next, 0, tile.seqlen_q - next.row, held);
      if constexpr (kConfig.is_direct) {
        typename Dots::Parts parts;
        load_row_parts(next, parts);
        finish_d(parts, 0);
      }
      end_step(0, held);
      advance(next);
    }
    // One step more than there are, for the last one's dq.
    for (int index = 0; index <= steps; ++index) {
      wait_for_copies();
      __syncthreads();
      [[maybe_unused]] typename Dots::Parts parts;
      HeldStep held;
      if (index + 1 < steps) {
        begin_step(next, index + 1, tile.seqlen_q - next.row, held);
        if constexpr (kConfig.is_direct) load_row_parts(next, parts);
      }
      if (index > 0) {
        finish_dq(dq, (index - 1) % 2);
        advance(dq);
      }
      if (index == steps) break;
      const bool is_masked = needs_mask(dq.row);
      if (is_masked || kMasksInOneStep) {
        step<true>(dq.row, dq.head, index, is_masked, keys, dk, dv);
      } else {
        step<false>(dq.row, dq.head, index, false, keys, dk, dv);
      }
      if (index + 1 < steps) {
        if constexpr (kStages == 1) __syncthreads();
        if constexpr (kConfig.is_direct) finish_d(parts, (index + 1) % 2);
        end_step(index + 1, held);
        advance(next);
      }
    }
    const KernelParams& again = arch::read_again<0>(params);
    write_keys<kTilesQ>(again.dk, dk, hdim_q(), again.scale);
    write_keys<kTilesV>(again.dv, dv, hdim_v(), 1.0F);
  }

  /// One query tile: its part of dk and dv, and its dS for dq.
  template <bool kCanBeMasked>
  __device__ __forceinline__ void step(int row, int head, int index, bool is_masked, const HeldKeys& keys,
                                       Accumulator (&dk)[kKeyTiles][kTilesQ], Accumulator (&dv)[kKeyTiles][kTilesV]) {
    const int stage = index % 2;
    Operand p[kKeyTiles][kScoredTiles] = {}, ds[kKeyTiles][kScoredTiles] = {};
    const int own = half() * kScoredTiles * 16;
    if (kCanBeMasked && !kMasksInOneStep && is_masked && !takes_part(row)) {
      // Every warp meets as many barriers as the others: racecheck loses count where some leave one out.
      if constexpr (kSplit > 1) sync_warps(warp() / kSplit, kSplit);
      return store_operands(shared.ds[stage], own, ds);
    }
    score<kCanBeMasked>(row, head, index, is_masked, keys, p, ds);
    store_operands(shared.ds[stage], own, ds);
    if constexpr (kSplit > 1) store_operands(shared.p, own, p);
    const std::uint16_t* dout =
        shared.dout[index % kStages] + half() * kTilesV * 16 + right_group_offset<kColumnGroup<kTilesV>>(kPitchV, lane);
    const std::uint16_t* q =
        shared.q[index % kStages] + half() * kTilesQ * 16 + right_group_offset<kColumnGroup<kTilesQ>>(kPitchQ, lane);
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

  /// This warp's keys and the rows from `row` on, in a tile of shared memory with keys as rows, or as columns.
  __device__ void store_operands(std::uint16_t* operands, int row,
                                 const Operand (&from)[kKeyTiles][kScoredTiles]) const {
    const auto place = [](int of_key, int of_row) {
      return kStoresTransposed ? of_row * kPitchS + of_key : of_key * kPitchS + of_row;
    };
    std::uint16_t* to = operands + place(warp_keys(), row) + store_offset(kPitchS, lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScoredTiles; ++i) store_operand(to + place(m * 16, i * 16), kPitchS, from[m][i]);
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

  template <int kTiles>
  __device__ static void set_to_zero(Accumulator (&sums)[kKeyTiles][kTiles]) {
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) sums[m][n] = zero_sums();
    }
  }

  /// sums[m][n] += left[m][i] * rows_i, summed over i; rows come with this lane's offset. Of the sums, tiles share
  /// their columns as the operands' do.
  template <int kTiles, int kPitch>
  __device__ __forceinline__ static void accumulate(Accumulator (&sums)[kKeyTiles][kTiles],
                                                    const Operand (&left)[kKeyTiles][kScoredTiles],
                                                    const std::uint16_t* rows) {
    constexpr int kGroup = kColumnGroup<kTiles>;
    constexpr int kDeep = kScoredTiles % kDeepTiles == 0 ? kDeepTiles : 1;
#pragma unroll
    for (int i = 0; i < kScoredTiles; i += kDeep) {
#pragma unroll
      for (int n = 0; n < kTiles; n += kGroup) {
        Operand right[kDeep][kGroup];
#pragma unroll
        for (int d = 0; d < kDeep; ++d) load_right_group(rows + (i + d) * 16 * kPitch + n * 16, kPitch, right[d]);
#pragma unroll
        for (int g = 0; g < kGroup; ++g) {
#pragma unroll
          for (int m = 0; m < kKeyTiles; ++m) {
            if constexpr (kDeep == 1) {
              multiply<kType>(sums[m][n + g], left[m][i], right[0][g]);
            } else {
              multiply<kType>(sums[m][n + g], DeepOperand{left[m][i], left[m][i + 1]},
                              DeepOperand{right[0][g], right[1][g]});
            }
          }
        }
      }
    }
  }

  template <int kTiles>
  __device__ __forceinline__ void write_keys(const TensorRef& t, const Accumulator (&sums)[kKeyTiles][kTiles], int hdim,
                                             float scale) {
    constexpr int kGroup = kColumnGroup<kTiles>;
    const int first_column = half() * kTiles * 16 + packed_column<kGroup>(lane);
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int row = tile.key_begin + warp_keys() + m * 16 + quad_row(i, lane);
        std::uint16_t* target = rows_of(t, job.k, row, job.head_k) + first_column;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const uint2 four = packed_quad<kType, kGroup>(sums[m], i, n, scale, lane);
          const int column = quad_column<kGroup>(n);
          if (row < job.k.physical && first_column + column < hdim) store_packed(target + column, four, is_aligned());
        }
      }
    }
  }
};

}  // namespace fmhax::portable
