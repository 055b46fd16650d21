/// @file What the parts of a backward kernel know of the block that they run in: how it is cut into tiles, what it
/// shares, what it works on.
#pragma once

#include <hip/hip_runtime.h>

#include <type_traits>

#include "arch/mma.cuh"
#include "fmhax/contract/params.hpp"
#include "tile_copy.cuh"
#include "tile_job.cuh"

namespace fmhax::portable {

/// `Instance` has a constexpr BackwardConfig kConfig.
template <class Instance>
struct BackwardBlock {
  static constexpr BackwardConfig kConfig = Instance::kConfig;
  static constexpr DataType kType = kConfig.dtype;
  static constexpr int kM = kConfig.kM;
  static constexpr int kN = kConfig.tile_keys();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kSplit = kConfig.hdim_split;
  static constexpr int kKeyTiles = kConfig.key_tiles;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kHoldsKeys = kConfig.holds_keys;
  static constexpr bool kIsAlone = kConfig.is_alone;
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
  static_assert(kScoredTiles * kSplit == kRowTiles && kTilesQ * kSplit == kDepthQ && kTilesV * kSplit == kDepthV);
  static_assert(kDepthQ % kDeepTiles == 0 && kDepthV % kDeepTiles == 0);
  static_assert(kConfig.lanes == kLanes && kHoldsKeys == kKeysAlongRows);

  using SumsOfK = Accumulator[kKeyTiles][kTilesQ];
  using SumsOfV = Accumulator[kKeyTiles][kTilesV];

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

  const KernelParams& params;
  const BackwardArguments& arguments;
  Shared& shared;
  const TileJob& job;
  /// Read from where they lie time and again where registers are short.
  static constexpr bool kKeepsNumbers =
      kIsAlone ? !kConfig.has_features && !kConfig.is_direct : kConfig.hdim_q < 128 && kConfig.hdim_v < 128;
  std::conditional_t<kKeepsNumbers, TileNumbers, const TileNumbers&> tile;
  std::conditional_t<kIsAlone, const float, const float&> scale;
  int thread, lane;
  const bool is_deterministic;

  __device__ BackwardBlock(const KernelParams& p, const BackwardArguments& a, Shared& s)
      : params(p),
        arguments(a),
        shared(s),
        job(s.job),
        tile(s.job.tile),
        scale(p.scale),
        thread(static_cast<int>(threadIdx.x)),
        lane(lane_id()),
        is_deterministic(p.problem.is_deterministic) {}

  __device__ int warp() const { return thread / kLanes; }
  /// The warp's first key of the tile's, and which of the warps that share it this one is.
  __device__ int warp_keys() const { return warp() / kSplit * 16 * kKeyTiles; }
  __device__ int half() const { return warp() % kSplit; }
  /// Plain instances are for rows that begin at multiples of 16 bytes.
  __device__ bool is_aligned() const {
    return !kConfig.has_features || arch::computed_here(static_cast<int>(arguments.is_aligned)) != 0;
  }
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
  /// Some key of the tile may be hidden from some row of the step that begins with `row`, or lie beyond the sequence.
  __device__ bool needs_mask(int row) const {
    const int last_key = tile.key_begin + kN - 1;
    return last_key >= tile.seqlen_k || last_key > row + tile.band.high ||
           tile.key_begin < row + kM - 1 + tile.band.low;
  }
  /// From this lane's first of the rows from `first` on, and its first key. Made of the mask anew: the compiler would
  /// read tile.band too early, and keep it in registers that are short.
  __device__ LocalBand local_band(int first) const {
    return Band::of(params.problem.mask, tile.seqlen_q, tile.seqlen_k)
        .from(first + Accumulator::column(0, lane), tile.key_begin + warp_keys() + Accumulator::row(0, lane),
              tile.seqlen_k);
  }
  /// Of the key head's group.
  __device__ std::int64_t head_q(int head) const { return job.head_k * tile.group + head; }
};

}  // namespace fmhax::portable
