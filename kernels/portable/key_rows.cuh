/// @file Where a block's rows of k and v come from, and its rows of dk and dv go.
#pragma once

#include "backward_block.cuh"

namespace fmhax::portable {

/// A warp's rows of k and v, where it holds them.
template <class Block>
struct HeldKeys {
  DeepOperand k[Block::kKeyTiles][Block::kDepthQ / kDeepTiles];
  DeepOperand v[Block::kKeyTiles][Block::kDepthV / kDeepTiles];
};

template <class Block, class Deep, int kKeyTiles, int kDepth>
__device__ __forceinline__ void hold_rows(const Block& block, const TensorRef& t, int hdim,
                                          Deep (&to)[kKeyTiles][kDepth]) {
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
    const int row = block.tile.key_begin + block.warp_keys() + m * 16 + Deep::row(block.lane);
    const std::uint16_t* from = block.rows_of(t, block.job.k, row, block.job.head_k) + Deep::column(block.lane);
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      const int column = depth * 16 * kDeepTiles;
      const bool is_real = row < block.tile.seqlen_k && column + Deep::column(block.lane) < hdim;
      to[m][depth] = Deep::of(is_real ? load_chunk(from + column, block.is_aligned()) : make_uint4(0, 0, 0, 0));
    }
  }
}

/// k along the keys.
template <class Block, class Deep, int kKeyTiles, int kDepth>
__device__ __forceinline__ void store_held_rows(Block& block, const Deep (&held)[kKeyTiles][kDepth]) {
  constexpr int kPitch = Block::kPitchK;
  std::uint16_t* to = block.shared.k + block.warp_keys() + Deep::store_offset(kPitch, block.lane);
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      held[m][depth].store(to + depth * 16 * kDeepTiles * kPitch + m * 16, kPitch);
    }
  }
}

template <class Block>
__device__ __forceinline__ void copy_keys(Block& block) {
  constexpr BackwardConfig kConfig = Block::kConfig;
  using CopyK = TileCopy<Block::kN, kConfig.hdim_q, Block::kPitchQ, Block::kThreads>;
  using CopyV = TileCopy<Block::kN, kConfig.hdim_v, Block::kPitchV, Block::kThreads>;
  const KernelParams& params = block.params;
  const TileJob& job = block.job;
  const int thread = block.thread;
  const int begin = block.tile.key_begin;
  const int rows = block.tile.seqlen_k - begin;
  CopyK::run(thread, block.shared.k,
             CopyK::source(thread, block.rows_of(params.k, job.k, begin, job.head_k), params.k.stride_seqlen),
             params.k.stride_seqlen, rows, block.hdim_q(), block.is_aligned());
  CopyV::run(thread, block.shared.v,
             CopyV::source(thread, block.rows_of(params.v, job.k, begin, job.head_k), params.v.stride_seqlen),
             params.v.stride_seqlen, rows, block.hdim_v(), block.is_aligned());
}

/// k and v of the tile: into registers, and k into shared memory along the keys; or both into shared memory.
template <class Block>
__device__ __forceinline__ void load_keys(Block& block, HeldKeys<Block>& held) {
  if constexpr (Block::kHoldsKeys) {
    hold_rows(block, block.params.k, block.hdim_q(), held.k);
    hold_rows(block, block.params.v, block.hdim_v(), held.v);
    store_held_rows(block, held.k);
  } else {
    copy_keys(block);
  }
}

/// dk or dv: this warp's keys and columns.
template <class Block, int kKeyTiles, int kTiles>
__device__ __forceinline__ void store_keys(const Block& block, const TensorRef& t,
                                           const Accumulator (&sums)[kKeyTiles][kTiles], int hdim, float scale) {
  constexpr int kGroup = kColumnGroup<kTiles>;
  const TileJob& job = block.job;
  const int lane = block.lane;
  const int first_column = block.half() * kTiles * 16 + packed_column<kGroup>(lane);
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int row = block.tile.key_begin + block.warp_keys() + m * 16 + quad_row(i, lane);
      std::uint16_t* target = block.rows_of(t, job.k, row, job.head_k) + first_column;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint2 four = packed_quad<Block::kType, kGroup>(sums[m], i, n, scale, lane);
        const int column = quad_column<kGroup>(i, n);
        if (row < job.k.physical && first_column + column < hdim) {
          store_packed(target + column, four, block.is_aligned());
        }
      }
    }
  }
}

}  // namespace fmhax::portable
