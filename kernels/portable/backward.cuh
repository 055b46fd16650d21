/// @file dq, dk, dv of one tile of keys, on matrix units.
///
/// For a tile of keys the block walks over the query tiles that see it. A warp scores its 16 keys against a query tile
/// with the keys as rows, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T already lie in registers as the left
/// operands of dV += P^T dO and dK += dS^T Q. Only dS goes through shared memory, for dQ = dS K, which each step
/// computes for the step before: one barrier a step.
#pragma once

#include <hip/hip_runtime.h>

#include <type_traits>

#include "backward_config.hpp"
#include "fmhax/contract/params.hpp"
#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/workspace.hpp"
#include "mma.cuh"
#include "pipeline.cuh"
#include "tile_copy.cuh"

namespace fmhax::portable {

/// What the host adds to a call's parameters.
struct BackwardArguments {
  std::int64_t jobs = 0;            ///< upper bound; jobs beyond the real ones clear rows of no sequence
  std::int32_t heads_together = 1;  ///< batch mode: (sequence, key head) pairs whose tiles run side by side
  bool is_aligned = false;          ///< every row of every 16-bit tensor begins at a multiple of 16 bytes
};

/// The tile of one block.
struct TileJob {
  std::int64_t sequence = -1;
  std::int64_t head_k = 0;
  std::int64_t split = 0;
  int key_begin = 0;
  SequenceRange q{}, k{};
};

/// `Instance` has a constexpr BackwardConfig kConfig.
template <class Instance>
struct BackwardKernel {
  static constexpr BackwardConfig kConfig = Instance::kConfig;
  static constexpr DataType kType = kConfig.dtype;
  static constexpr int kM = kConfig.kM;
  static constexpr int kN = kConfig.kN();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kSplit = kConfig.hdim_split;
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
  };

  /// Where a thread reads the next query tile from, and which tile that is.
  struct Cursor {
    const std::uint16_t* q;
    const std::uint16_t* dout;
    int head;  ///< within the key head's group
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
  TileJob job{};
  int seqlen_q = 0, seqlen_k = 0;    ///< logical
  int first_row = 0, end_row = 0;    ///< the query rows to visit; first_row is a multiple of kM
  int group = 1;

  __device__ BackwardKernel(const KernelParams& p, const BackwardArguments& a, Shared& s)
      : params(p), arguments(a), shared(s), group(static_cast<int>(p.problem.nhead_q / p.problem.nhead_k)) {}

  __device__ static int warp() { return thread_id() / kLanes; }
  __device__ static int warp_keys() { return warp() / kSplit * 16; }
  __device__ static int half() { return warp() % kSplit; }
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
  __device__ std::int64_t head_q(int head) const { return job.head_k * group + head; }

  __device__ void load_keys() {
    const int rows = seqlen_k - job.key_begin;
    CopyK::run(shared.k, CopyK::source(rows_of(params.k, job.k, job.key_begin, job.head_k), params.k.stride_seqlen),
               params.k.stride_seqlen, rows, hdim_q(), arguments.is_aligned);
    CopyV::run(shared.v, CopyV::source(rows_of(params.v, job.k, job.key_begin, job.head_k), params.v.stride_seqlen),
               params.v.stride_seqlen, rows, hdim_v(), arguments.is_aligned);
  }

  static constexpr int kStatsLanes = kThreads < 2 * kM ? kThreads / 2 : kM;

  /// At the first row of a head.
  __device__ void move_to_head(Cursor& at) const {
    at.row = first_row;
    const std::int64_t head = head_q(at.head);
    at.q = CopyQ::source(rows_of(params.q, job.q, first_row, head), params.q.stride_seqlen);
    at.dout = CopyDout::source(rows_of(params.dout, job.q, first_row, head), params.dout.stride_seqlen);
  }

  __device__ void advance(Cursor& at) const {
    at.row += kM;
    if (at.row < end_row) {
      at.q += kM * params.q.stride_seqlen;
      at.dout += kM * params.dout.stride_seqlen;
    } else if (++at.head < group) {
      move_to_head(at);
    }
  }

  __device__ void load_step(const Cursor& at, int stage) {
    const int rows = seqlen_q - at.row;
    CopyQ::run(shared.q[stage], at.q, params.q.stride_seqlen, rows, hdim_q(), arguments.is_aligned);
    CopyDout::run(shared.dout[stage], at.dout, params.dout.stride_seqlen, rows, hdim_v(), arguments.is_aligned);
    auto* stats = reinterpret_cast<float*>(shared.stats[stage]);
    const int tid = thread_id();
    // Half of the threads (or as many as there are rows) bring lse, as many others d.
    const bool is_d = tid >= kStatsLanes;
    if (tid >= (kConfig.is_direct ? 1 : 2) * kStatsLanes) return;
    const TensorRef& t = is_d ? params.d : params.lse;
    const float* source = static_cast<const float*>(t.data) + offset_of(t, job.q, at.row, head_q(at.head));
#pragma unroll
    for (int row = is_d ? tid - kStatsLanes : tid; row < kM; row += kStatsLanes) {
      copy4_async(stats + row / 2 * 4 + row % 2 + (is_d ? 2 : 0), source + row * t.stride_seqlen, row < rows);
    }
  }

  /// d of a query tile straight from dout and o, for direct kernels.
  __device__ void compute_d(const Cursor& at, int stage) {
    constexpr int kLanesPerRow = kThreads / kM < 8 ? kThreads / kM : 8;
    static_assert(kThreads % kLanesPerRow == 0 && kThreads / kLanesPerRow >= kM);
    const int local = thread_id() / kLanesPerRow;
    if (local >= kM) return;
    const int row = at.row + local;
    float sum = 0;
    if (row < seqlen_q) {
      sum = dot_rows<kType>(rows_of(params.dout, job.q, row, head_q(at.head)),
                            rows_of(params.o, job.q, row, head_q(at.head)), hdim_v(),
                            thread_id() % kLanesPerRow, kLanesPerRow, arguments.is_aligned);
    }
    for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    if (thread_id() % kLanesPerRow == 0) {
      reinterpret_cast<float*>(shared.stats[stage])[local / 2 * 4 + local % 2 + 2] = sum;
    }
  }

  /// Some key of the tile may be hidden from some row of the step, or lie beyond the sequence.
  __device__ bool needs_mask(int row) const {
    if (job.key_begin + kN > seqlen_k) return true;
    const Mask& mask = params.problem.mask;
    if (mask.is_none()) return false;
    const std::int64_t diagonal = row + mask_offset(mask, seqlen_q, seqlen_k);
    if (mask.window_right >= 0 && job.key_begin + kN - 1 > diagonal + mask.window_right) return true;
    return mask.window_left >= 0 && job.key_begin < diagonal + kM - 1 - mask.window_left;
  }

  /// S^T and dP^T of this warp's keys; P^T and dS^T as operands.
  __device__ void score(int row, int stage, Operand (&p)[kScoredTiles], Operand (&ds)[kScoredTiles]) {
    Accumulator s[kScoredTiles] = {};
    Accumulator dp[kScoredTiles] = {};
    const int rows = half() * kScoredTiles * 16;
    const std::uint16_t* k = shared.k + warp_keys() * kPitchQ + left_offset(kPitchQ);
    const std::uint16_t* v = shared.v + warp_keys() * kPitchV + left_offset(kPitchV);
    const std::uint16_t* q = shared.q[stage] + rows * kPitchQ + right_transposed_offset(kPitchQ);
    const std::uint16_t* dout = shared.dout[stage] + rows * kPitchV + right_transposed_offset(kPitchV);
    const auto load_keys_at = [&](int depth) {
      return load_left(depth < kDepthQ ? k + depth * 16 : v + (depth - kDepthQ) * 16);
    };
    Operand left[2];
    left[0] = load_keys_at(0);
    pipeline<(kDepthQ + kDepthV) * kScoredTiles>(
        [&](int at) {
          const int depth = at / kScoredTiles;
          const int tile = at % kScoredTiles * 16;
          return load_right_transposed(depth < kDepthQ ? q + tile * kPitchQ + depth * 16
                                                       : dout + tile * kPitchV + (depth - kDepthQ) * 16);
        },
        [&](int at, const Operand& right) {
          const int depth = at / kScoredTiles;
          const int tile = at % kScoredTiles;
          if (tile == 0 && depth + 1 < kDepthQ + kDepthV) left[(depth + 1) % 2] = load_keys_at(depth + 1);
          multiply<kType>(depth < kDepthQ ? s[tile] : dp[tile], left[depth % 2], right);
        });
    if (needs_mask(row)) {
      finish_scores<true>(row, stage, s, dp);
    } else {
      finish_scores<false>(row, stage, s, dp);
    }
#pragma unroll
    for (int i = 0; i < kScoredTiles; ++i) {
      p[i] = to_operand<kType>(s[i]);
      ds[i] = to_operand<kType>(dp[i]);
    }
  }

  /// s becomes P, dp becomes dS.
  template <bool kIsMasked>
  __device__ void finish_scores(int first, int stage, Accumulator (&s)[kScoredTiles], Accumulator (&dp)[kScoredTiles]) {
    constexpr float kLog2E = 1.4426950408889634F;
    const float scale = params.scale * kLog2E;
    // Row i of the sequence sees keys i + low .. i + high, within the sequence.
    int low = 0, high = 0;
    if constexpr (kIsMasked) {
      constexpr std::int64_t kFar = std::int64_t{1} << 30;
      const Mask& mask = params.problem.mask;
      const std::int64_t offset = mask_offset(mask, seqlen_q, seqlen_k);
      low = static_cast<int>(mask.window_left < 0 ? -kFar : clamp_index(offset - mask.window_left, -kFar, kFar));
      high = static_cast<int>(mask.window_right < 0 ? kFar : clamp_index(offset + mask.window_right, -kFar, kFar));
    }
    const int tile_row = half() * kScoredTiles * 16;
    const float4* stats = shared.stats[stage] + (tile_row + Accumulator::column(0)) / 2;
#pragma unroll
    for (int i = 0; i < kScoredTiles; ++i) {
#pragma unroll
      for (int pair = 0; pair < Accumulator::kColumns / 2; ++pair) {
        const float4 of_rows = stats[i * 8 + (Accumulator::column(2 * pair) - Accumulator::column(0)) / 2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float shift = (c == 0 ? of_rows.x : of_rows.y) * kLog2E;
          const float d = c == 0 ? of_rows.z : of_rows.w;
#pragma unroll
          for (int r = 0; r < Accumulator::kRows; ++r) {
            const int e = Accumulator::element(r, 2 * pair + c);
            // A row that sees no key has lse = -inf, so infinity here; such a row is masked.
            float p = exp2_fast(s[i].value[e] * scale - shift);
            if constexpr (kIsMasked) {
              const int key = job.key_begin + warp_keys() + Accumulator::row(r);
              const int distance = key - (first + tile_row + i * 16 + Accumulator::column(2 * pair + c));
              if (key >= seqlen_k || distance < low || distance > high) p = 0;
            }
            s[i].value[e] = p;
            dp[i].value[e] = p * (dp[i].value[e] - d);
          }
        }
      }
    }
  }

  __device__ void move_to_head(DqCursor& at) const {
    at.row = first_row;
    const Problem& p = params.problem;
    const std::int64_t row = first_row + warp() / kDqWarpsN * kDqTilesM * 16 + quad_row(0);
    const std::int64_t column = warp() % kDqWarpsN * kDqTilesN * 16 + quad_column();
    if constexpr (kConfig.is_direct) {
      at.target = reinterpret_cast<unsigned char*>(rows_of(params.dq, job.q, row, head_q(at.head)) + column);
    } else {
      const std::int64_t nsplits = p.is_deterministic ? params.nsplits[p.is_group_mode ? job.sequence : 0] : 1;
      const std::int64_t begin = p.is_group_mode ? params.dq_acc_offsets[job.sequence]
                                                 : job.sequence * p.nhead_q * nsplits * job.q.physical * p.hdim_q;
      const std::int64_t rows = (head_q(at.head) * nsplits + job.split) * job.q.physical + row;
      at.target = reinterpret_cast<unsigned char*>(static_cast<float*>(params.dq_acc) + begin + rows * p.hdim_q + column);
    }
  }

  __device__ std::int64_t dq_row_bytes() const {
    return kConfig.is_direct ? params.dq.stride_seqlen * 2 : params.problem.hdim_q * 4;
  }

  __device__ void advance(DqCursor& at) const {
    at.row += kM;
    if (at.row < end_row) {
      at.target += kM * dq_row_bytes();
    } else if (++at.head < group) {
      move_to_head(at);
    }
  }

  /// dq of a step whose dS lies in shared memory.
  __device__ void finish_dq(const DqCursor& at, int stage) {
    Accumulator dq[kDqTilesM][kDqTilesN] = {};
    const int tile_m = warp() / kDqWarpsN * kDqTilesM;
    const int tile_n = warp() % kDqWarpsN * kDqTilesN;
    const std::uint16_t* ds = shared.ds[stage] + tile_m * 16 + left_transposed_offset(kPitchS);
    const std::uint16_t* k = shared.k + tile_n * 16 + right_offset(kPitchQ);
    const auto multiply_keys = [&]<int kKeys>(int first, std::integral_constant<int, kKeys>) {
      Operand left[2][kDqTilesM];
      const auto load_ds = [&](int key, Operand(&to)[kDqTilesM]) {
#pragma unroll
        for (int m = 0; m < kDqTilesM; ++m) to[m] = load_left_transposed(ds + (first + key * 16) * kPitchS + m * 16);
      };
      load_ds(0, left[0]);
      pipeline<kKeys * kDqTilesN>(
          [&](int at) { return load_right(k + (first + at / kDqTilesN * 16) * kPitchQ + at % kDqTilesN * 16); },
          [&](int at, const Operand& right) {
            const int key = at / kDqTilesN;
            if (at % kDqTilesN == 0 && key + 1 < kKeys) load_ds(key + 1, left[(key + 1) % 2]);
#pragma unroll
            for (int m = 0; m < kDqTilesM; ++m) multiply<kType>(dq[m][at % kDqTilesN], left[key % 2][m], right);
          });
    };
    if constexpr (kConfig.is_direct) {
      const int keys = min(seqlen_k - job.key_begin, kN);
      for (int key = 0; key < keys; key += 32) multiply_keys(key, std::integral_constant<int, 2>{});
    } else {
      multiply_keys(0, std::integral_constant<int, kN / 16>{});
    }
    const std::int64_t row_bytes = dq_row_bytes();
    const int rows = (kConfig.is_direct ? static_cast<int>(job.q.physical) : seqlen_q) - at.row - tile_m * 16;
    const int columns = hdim_q() - tile_n * 16;
    const bool is_whole = rows >= kDqTilesM * 16 && columns >= kDqTilesN * 16;
    if (kConfig.is_direct || params.problem.is_deterministic) {
      write_dq(dq, at.target, row_bytes, rows, columns, [&](float* target, const float4& quad) {
        if constexpr (kConfig.is_direct) {
          store_quad<kType>(reinterpret_cast<std::uint16_t*>(target), quad, params.scale, arguments.is_aligned);
        } else {
          *reinterpret_cast<float4*>(target) = quad;
        }
      });
    } else if (is_whole) {
      constexpr int kAll = 1 << 20;
      write_dq(dq, at.target, row_bytes, kAll, kAll,
               [&](float* target, const float4& quad) { atomic_add_quad(target, quad); });
    } else {
      write_dq(dq, at.target, row_bytes, rows, columns,
               [&](float* target, const float4& quad) { atomic_add_quad(target, quad); });
    }
  }

  template <class Write>
  __device__ static void write_dq(const Accumulator (&dq)[kDqTilesM][kDqTilesN], unsigned char* target,
                                  std::int64_t row_bytes, int rows, int columns, Write&& write) {
    constexpr int kElement = kConfig.is_direct ? 2 : 4;
#pragma unroll
    for (int m = 0; m < kDqTilesM; ++m) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        unsigned char* to = target + (m * 16 + quad_row(i) - quad_row(0)) * row_bytes;
        const bool is_row = m * 16 + quad_row(i) < rows;
#pragma unroll
        for (int n = 0; n < kDqTilesN; ++n) {
          const float4 quad = row_quad(dq[m][n], i);
          if (is_row && n * 16 + quad_column() < columns) write(reinterpret_cast<float*>(to + n * 16 * kElement), quad);
        }
      }
    }
  }

  __device__ void run() {
    Accumulator dk[kTilesQ] = {};
    Accumulator dv[kTilesV] = {};
    __syncthreads();  // the job before this one may still read
    load_keys();
    int steps = first_row < end_row ? (end_row - first_row + kM - 1) / kM * group : 0;
    Cursor next{};
    DqCursor dq{};
    int row = first_row;
    if (steps > 0) {
      move_to_head(next);
      move_to_head(dq);
      load_step(next, 0);
      if constexpr (kConfig.is_direct) compute_d(next, 0);
      advance(next);
    }
    for (int index = 0; index < steps; ++index) {
      const int stage = index & 1;
      wait_for_copies();
      __syncthreads();
      const int row_of_next = next.row;
      if (index + 1 < steps) load_step(next, stage ^ 1);
      if (index > 0) {
        finish_dq(dq, stage ^ 1);
        advance(dq);
      }
      Operand p[kScoredTiles], ds[kScoredTiles];
      score(row, stage, p, ds);
      std::uint16_t* ds_tile = shared.ds[stage] + warp_keys() * kPitchS;
      if constexpr (kSplit == 1) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) store_operand(ds_tile + i * 16, kPitchS, ds[i]);
        accumulate(dk, dv, stage, [&](int tile, bool is_dv) { return is_dv ? p[tile] : ds[tile]; });
      } else {
        std::uint16_t* p_tile = shared.p + warp_keys() * kPitchS;
#pragma unroll
        for (int i = 0; i < kScoredTiles; ++i) {
          store_operand(ds_tile + (half() * kScoredTiles + i) * 16, kPitchS, ds[i]);
          store_operand(p_tile + (half() * kScoredTiles + i) * 16, kPitchS, p[i]);
        }
        __syncthreads();
        accumulate(dk, dv, stage, [&](int tile, bool is_dv) {
          return load_left((is_dv ? p_tile : ds_tile) + left_offset(kPitchS) + tile * 16);
        });
      }
      if (index + 1 < steps) {
        if constexpr (kConfig.is_direct) compute_d(next, stage ^ 1);
        advance(next);
      }
      row = row_of_next;
    }
    wait_for_copies();
    __syncthreads();
    if (steps > 0) finish_dq(dq, (steps - 1) & 1);
    write_keys<kTilesQ>(params.dk, dk, hdim_q(), params.scale);
    write_keys<kTilesV>(params.dv, dv, hdim_v(), 1.0F);
  }

  /// dv += P^T dO, then dk += dS^T Q; this warp's columns. `left(tile, is_dv)` is P^T or dS^T of 16 rows.
  template <class Left>
  __device__ void accumulate(Accumulator (&dk)[kTilesQ], Accumulator (&dv)[kTilesV], int stage, Left&& left) {
    const std::uint16_t* dout = shared.dout[stage] + half() * kTilesV * 16 + right_offset(kPitchV);
    const std::uint16_t* q = shared.q[stage] + half() * kTilesQ * 16 + right_offset(kPitchQ);
    constexpr int kOfV = kRowTiles * kTilesV;
    Operand operand;
    pipeline<kOfV + kRowTiles * kTilesQ>(
        [&](int at) {
          const int of_q = at - kOfV;
          return load_right(at < kOfV ? dout + at / kTilesV * 16 * kPitchV + at % kTilesV * 16
                                      : q + of_q / kTilesQ * 16 * kPitchQ + of_q % kTilesQ * 16);
        },
        [&](int at, const Operand& right) {
          const int of_q = at - kOfV;
          if (at < kOfV) {
            if (at % kTilesV == 0) operand = left(at / kTilesV, true);
            multiply<kType>(dv[at % kTilesV], operand, right);
          } else {
            if (of_q % kTilesQ == 0) operand = left(of_q / kTilesQ, false);
            multiply<kType>(dk[of_q % kTilesQ], operand, right);
          }
        });
  }

  template <int kTiles>
  __device__ void write_keys(const TensorRef& t, const Accumulator (&sums)[kTiles], int hdim, float scale) {
    const int key = job.key_begin + warp_keys();
    const int first_column = half() * kTiles * 16 + quad_column();
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int row = key + quad_row(i);
      std::uint16_t* target = rows_of(t, job.k, row, job.head_k) + first_column;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float4 quad = row_quad(sums[n], i);
        if (row < job.k.physical && first_column + n * 16 < hdim) {
          store_quad<kType>(target + n * 16, quad, scale, arguments.is_aligned);
        }
      }
    }
  }
};

}  // namespace fmhax::portable
