/// @file The kernel function around BackwardKernel: which tiles a block takes, refused calls, rows of no sequence.
#pragma once

#include "backward.cuh"
#include "fmhax/contract/workspace.hpp"
#include "places.cuh"
#include "status.cuh"

namespace fmhax::portable {

/// One block's share of filling rows [rows.begin, rows.end) of a 16-bit tensor, all heads.
template <int kThreads>
__device__ inline void fill_rows(const TensorRef& t, std::int64_t batch, IndexRange rows, std::int64_t heads,
                                 std::int64_t hdim, std::uint16_t bits) {
  const std::int64_t fours = hdim / 4;
  const std::int64_t count = rows.empty() ? 0 : (rows.end - rows.begin) * heads * fours;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const std::int64_t row = i / (heads * fours);
    const std::int64_t head = i / fours - row * heads;
    auto* to = static_cast<std::uint16_t*>(t.data) + row_offset(t, batch, rows.begin + row, head) + i % fours * 4;
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(uint2) == 0) {
      *reinterpret_cast<uint2*>(to) = make_uint2(twice(bits), twice(bits));
    } else {
      for (int e = 0; e < 4; ++e) to[e] = bits;
    }
  }
}

/// A refused call: every gradient that the kernel writes is NaN.
template <class Instance>
__device__ inline void fill_with_nan(const KernelParams& params) {
  constexpr BackwardConfig kConfig = Instance::kConfig;
  constexpr std::uint16_t kNan = kConfig.dtype == DataType::bf16 ? 0x7fc0 : 0x7e00;
  const Problem& p = params.problem;
  for (std::int64_t batch = 0; batch < (p.is_group_mode ? 1 : p.batch); ++batch) {
    const IndexRange rows_of_k{0, p.is_group_mode ? p.total_k : p.max_seqlen_k};
    fill_rows<kConfig.threads()>(params.dk, batch, rows_of_k, p.nhead_k, p.hdim_q, kNan);
    fill_rows<kConfig.threads()>(params.dv, batch, rows_of_k, p.nhead_k, p.hdim_v, kNan);
    if constexpr (kConfig.is_direct) {
      const IndexRange rows_of_q{0, p.is_group_mode ? p.total_q : p.max_seqlen_q};
      fill_rows<kConfig.threads()>(params.dq, batch, rows_of_q, p.nhead_q, p.hdim_q, kNan);
    }
  }
}

/// Rows behind the last sequence get zero gradients.
template <class Instance>
__device__ inline void clear_tail(const KernelParams& params) {
  constexpr BackwardConfig kConfig = Instance::kConfig;
  const Problem& p = params.problem;
  if (!p.is_group_mode) return;
  const IndexRange rows_of_k{packed_rows(p, params.lengths, SequenceSide::k), p.total_k};
  fill_rows<kConfig.threads()>(params.dk, 0, rows_of_k, p.nhead_k, p.hdim_q, 0);
  fill_rows<kConfig.threads()>(params.dv, 0, rows_of_k, p.nhead_k, p.hdim_v, 0);
  if constexpr (kConfig.is_direct) {
    const IndexRange rows_of_q{packed_rows(p, params.lengths, SequenceSide::q), p.total_q};
    fill_rows<kConfig.threads()>(params.dq, 0, rows_of_q, p.nhead_q, p.hdim_q, 0);
  }
}

/// A direct kernel's blocks check the lengths for themselves; block 0 reports.
__device__ inline bool refuses_lengths(const KernelParams& params) {
  const bool is_refused = lengths_are_refused(params.problem, params.lengths);
  if (blockIdx.x == 0 && threadIdx.x == 0 && params.status != nullptr) {
    report(is_refused ? check_lengths(params.problem, params.lengths) : CallStatus{},
           arch::load_for_host(&params.status->checks) + 1, *params.status);
  }
  return is_refused;
}

/// What block job `index` covers.
template <BackwardConfig kConfig>
struct Share {
  std::int64_t sequence = 0;
  std::int64_t head_k = 0;
  std::int64_t split = 0;
  SplitRange tiles{};

  __device__ static Share of(const KernelParams& params, const BackwardArguments& arguments, std::int64_t index) {
    const Problem& p = params.problem;
    Share share;
    if constexpr (kConfig.is_direct) {
      share.sequence = index / p.nhead_k;
      share.head_k = index % p.nhead_k;
      share.tiles = {0, 1};
    } else if (p.is_group_mode) {
      const std::int64_t job = index / p.nhead_k;
      const std::int64_t place = find_tile(params.tile_starts, p.batch, job);
      share.sequence = params.tile_sequences[place];
      share.head_k = index % p.nhead_k;
      share.take(params, job - params.tile_starts[place]);
    } else {
      // Pairs of a sequence and a key head, heads_together of them side by side, tile by tile.
      const std::int64_t together = arguments.heads_together;
      const std::int64_t jobs = arguments.jobs_per_head;
      const std::int64_t section = index / (jobs * together);
      const std::int64_t left = p.batch * p.nhead_k - section * together;
      const std::int64_t here = left < together ? left : together;
      const std::int64_t within = index - section * jobs * together;
      const std::int64_t pair = section * together + within % here;
      share.sequence = pair / p.nhead_k;
      share.head_k = pair % p.nhead_k;
      share.take(params, within / here);
    }
    return share;
  }

 private:
  __device__ void take(const KernelParams& params, std::int64_t job) {
    const Problem& p = params.problem;
    tiles = {job, job + 1};
    if (!p.is_deterministic) return;
    const std::int64_t physical = sequence_range(p, params.lengths, SequenceSide::k, sequence).physical;
    split = job;
    tiles = split_range(key_tiles(kConfig.kN(), physical), params.nsplits[p.is_group_mode ? sequence : 0], job);
  }
};

template <class Instance>
__global__ void __launch_bounds__(Instance::kConfig.threads(), 1)
    backward_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                    const FMHAX_KERNEL_PARAMETER BackwardArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = BackwardKernel<Instance>;
  constexpr BackwardConfig kConfig = Instance::kConfig;
  const Problem& p = params.problem;
  if (kConfig.is_direct ? refuses_lengths(params) : params.nsplits[0] == kInvalidCall) {
    return fill_with_nan<Instance>(params);
  }
  Kernel kernel(params, arguments, *reinterpret_cast<typename Kernel::Shared*>(shared_bytes));
  const std::int64_t jobs =
      !kConfig.is_direct && p.is_group_mode ? params.tile_starts[p.batch] * p.nhead_k : arguments.jobs;
  for (std::int64_t index = blockIdx.x; index < jobs; index += gridDim.x) {
    const auto share = Share<kConfig>::of(params, arguments, index);
    kernel.begin(share.sequence, share.head_k, share.split);
    for (std::int64_t tile = share.tiles.begin; tile < share.tiles.end; ++tile) {
      kernel.run(static_cast<int>(tile * kConfig.kN()), tile > share.tiles.begin);
    }
  }
  clear_tail<Instance>(params);
}

}  // namespace fmhax::portable
