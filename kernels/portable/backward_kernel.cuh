/// @file The kernel function around BackwardKernel: which tiles a block takes, refused calls, rows of no sequence.
#pragma once

#include "backward.cuh"

namespace fmhax::portable {

/// Rows [begin, end) of every head of a 16-bit tensor of one packed sequence, spread over `blocks` blocks.
template <int kThreads>
__device__ inline void fill_rows(const TensorRef& t, std::int64_t batch, IndexRange rows, std::int64_t heads,
                                 std::int64_t hdim, std::uint16_t bits, std::int64_t block, std::int64_t blocks) {
  const std::int64_t quads = hdim / 4;
  const std::int64_t count = (rows.end - rows.begin) * heads * quads;
  for (std::int64_t i = block * kThreads + threadIdx.x; i < count; i += blocks * kThreads) {
    const std::int64_t row = rows.begin + i / (heads * quads);
    const std::int64_t head = i / quads % heads;
    auto* to = static_cast<std::uint16_t*>(t.data) + batch * t.stride_batch + row * t.stride_seqlen +
               head * t.stride_nhead + i % quads * 4;
    for (int e = 0; e < 4; ++e) to[e] = bits;
  }
}

template <class Instance>
__global__ void __launch_bounds__(Instance::kConfig.threads(), Instance::kConfig.blocks_per_multiprocessor)
    backward_kernel(const __grid_constant__ KernelParams params, const __grid_constant__ BackwardArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = BackwardKernel<Instance>;
  constexpr BackwardConfig kConfig = Instance::kConfig;
  Kernel kernel(params, arguments, *reinterpret_cast<typename Kernel::Shared*>(shared_bytes));
  const Problem& p = params.problem;
  const std::int64_t tiles = (p.max_seqlen_k + kConfig.kN() - 1) / kConfig.kN();
  for (std::int64_t index = blockIdx.x; index < arguments.jobs; index += gridDim.x) {
    TileJob& job = kernel.job;
    // Sections of heads_together pairs; within one, tile by tile.
    const std::int64_t pairs = p.batch * p.nhead_k;
    const std::int64_t section = index / (tiles * arguments.heads_together);
    const std::int64_t pairs_here =
        min(static_cast<std::int64_t>(arguments.heads_together), pairs - section * arguments.heads_together);
    const std::int64_t within = index - section * tiles * arguments.heads_together;
    const std::int64_t pair = section * arguments.heads_together + within % pairs_here;
    const std::int64_t tile = within / pairs_here;
    job.sequence = pair / p.nhead_k;
    job.head_k = pair % p.nhead_k;
    job.key_begin = static_cast<int>(tile * kConfig.kN());
    job.split = p.is_deterministic ? tile : 0;
    job.q = sequence_range(p, params.lengths, SequenceSide::q, job.sequence);
    job.k = sequence_range(p, params.lengths, SequenceSide::k, job.sequence);
    kernel.seqlen_q = static_cast<int>(job.q.logical);
    kernel.seqlen_k = static_cast<int>(job.k.logical);
    if constexpr (kConfig.is_direct) {
      kernel.first_row = 0;
      kernel.end_row = static_cast<int>(job.q.physical);
    } else {
      const IndexRange rows =
          rows_seeing(p.mask, job.q.logical, job.k.logical,
                      {job.key_begin, min(job.k.logical, static_cast<std::int64_t>(job.key_begin + kConfig.kN()))});
      kernel.first_row = static_cast<int>(rows.begin / kConfig.kM * kConfig.kM);
      kernel.end_row = static_cast<int>(rows.end);
    }
    kernel.run();
  }
}

}  // namespace fmhax::portable
