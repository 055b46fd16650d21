/// @file The kernels: what each of their blocks does. A block is one call of the function; blocks of a launch run in
/// any order and at the same time.
#pragma once

#include "fmhax/contract/params.hpp"

namespace plain {

/// Which block of how many this is.
struct Block {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// o and lse. One block for each (sequence, query head), and one more for the rows of no sequence.
void forward(const fmhax::KernelParams& params, Block block);
std::int64_t forward_blocks(const fmhax::Problem& problem);

/// d = rowsum(dout * o). Any number of blocks.
void dot_do_o(const fmhax::KernelParams& params, Block block);

/// dk, dv, and what each tile of keys adds to dq, into its own split of dq_acc. One block for each (sequence, key head,
/// tile of keys), and one more for the rows of no sequence.
void dq_dk_dv(const fmhax::KernelParams& params, Block block);
std::int64_t dq_dk_dv_blocks(const fmhax::Problem& problem);

/// dq = scale * the sum of the splits. One block for each (sequence, query head), and one more for the rows of no
/// sequence.
void convert_dq(const fmhax::KernelParams& params, Block block);
std::int64_t convert_dq_blocks(const fmhax::Problem& problem);

}  // namespace plain
