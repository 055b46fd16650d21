/// @file dq, dk, dv of one tile of keys, on matrix units.
///
/// For a tile of keys the block walks over the query tiles that see it. A warp scores its keys against a query tile
/// with the keys as rows, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T already lie in registers as the left
/// operands of dV += P^T dO and dK += dS^T Q. dS goes through shared memory too, for dQ = dS K, which each step
/// computes for the step before: the block meets once a step. Warps that share keys (BackwardConfig::hdim_split) also
/// pass each other P and dS there.
#pragma once

#include "walk_alone.cuh"
#include "walk_shared.cuh"

namespace fmhax::portable {

template <class Instance>
struct BackwardKernel {
  using Block = BackwardBlock<Instance>;
  using Shared = typename Block::Shared;
  using Walk = std::conditional_t<Block::kIsAlone, AloneWalk<Block>, SharedWalk<Block>>;
  static constexpr int kM = Block::kM;

  Block block;

  __device__ BackwardKernel(const KernelParams& params, const BackwardArguments& arguments, Shared& shared)
      : block(params, arguments, shared) {}

  /// dk and dv of the job's first tile, and what it adds to dq: in deterministic mode to what the split holds, or over
  /// it.
  __device__ void run() {
    const TileNumbers& tile = block.tile;
    if constexpr (Block::kKeepsNumbers) block.tile = block.job.tile;
    if constexpr (Block::kConfig.has_features) store_random_values();
    typename Block::SumsOfK dk;
    typename Block::SumsOfV dv;
    set_to_zero(dk);
    set_to_zero(dv);
    HeldKeys<Block> keys;
    load_keys(block, keys);
    const int steps = tile.first_row < tile.end_row ? (tile.end_row - tile.first_row + kM - 1) / kM * tile.group : 0;
    Walk(block, keys).run(steps, dk, dv);
    const KernelParams& again = arch::read_again<0>(block.params);
    store_keys(block, again.dk, dk, block.hdim_q(), again.scale);
    store_keys(block, again.dv, dv, block.hdim_v(), 1.0F);
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
