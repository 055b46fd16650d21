/// @file The kernels without instruction set and launch: what one block of each does, and how many blocks a
/// problem has. Blocks loop over their jobs, so any launch of at least one block computes everything.
#pragma once

#include <cstdint>

#include "fmhax/contract/params.hpp"
#include "fmhax/contract/workspace.hpp"
#include "rows.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu {

// forward, dot_do_o and backward_direct run without metadata, so each of their blocks checks all lengths itself:
// launches of few blocks suit them.

/// o and lse, NaN when the lengths are wrong. One job is kM0 query rows of one head.
std::int64_t forward_jobs(const Problem& problem) noexcept;
void forward(const KernelParams& params, const TileOps& ops, Block block);

/// d, or nothing when the lengths are wrong. One job is kM0 query rows of all heads. Padding is neither read nor
/// written.
std::int64_t dot_do_o_jobs(const Problem& problem) noexcept;
void dot_do_o(const KernelParams& params, const TileOps& ops, Block block);

/// The metadata, zeroes in what will be used of dq_acc, and the status of the lengths. Each block sums all lengths,
/// then writes its share, so a launch should have no more blocks than run at a time.
void prepare(const KernelParams& params, const WorkspaceSpec& spec, Block block);

/// dq. One job is kM0 query rows of all heads.
std::int64_t convert_dq_jobs(const Problem& problem) noexcept;
void convert_dq(const KernelParams& params, const TileOps& ops, Block block);

/// dk, dv, and dq into dq_acc: added to one split, or (deterministic group mode) each key tile to its own.
/// One job is one key tile of one key head.
std::int64_t backward_general_jobs(const Problem& problem) noexcept;
void backward_general(const KernelParams& params, const TileOps& ops, Block block);

/// dk, dv, and dq into dq_acc in deterministic batch mode: the blocks are the workers of persistent_schedule()
/// and must be as many as WorkspaceSpec::workers says; each adds to the split of its rank in a head.
void backward_persistent(const KernelParams& params, const TileOps& ops, Block block);

/// dbias, deterministic. One job is one tile of it, kM0 rows by kN0 keys.
std::int64_t dbias_jobs(const KernelParams& params) noexcept;
void dbias(const KernelParams& params, const TileOps& ops, Block block);

/// dsink, deterministic. One job is one head.
std::int64_t dsink_jobs(const KernelParams& params) noexcept;
void dsink(const KernelParams& params, const TileOps& ops, Block block);

/// dq, dk, dv of problems whose keys fit one tile, and the check of their lengths. One job is one key head of
/// one sequence.
std::int64_t backward_direct_jobs(const Problem& problem) noexcept;
void backward_direct(const KernelParams& params, const TileOps& ops, Block block);

}  // namespace fmhax::cpu
