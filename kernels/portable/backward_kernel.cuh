/// @file The kernel function around BackwardKernel: which tiles a block takes, refused calls, rows of no sequence.
#pragma once

#include "backward.cuh"
#include "places.cuh"
#include "status.cuh"

namespace fmhax::portable {

/// Part `index` of `count`.
struct Part {
  std::int64_t index;
  std::int64_t count;
};

/// A part of rows [rows.begin, rows.end) of a 16-bit tensor, all heads, filled by the threads of a block.
template <int kThreads>
__device__ inline void fill_rows(const TensorRef& t, std::int64_t batch, IndexRange rows, std::int64_t heads,
                                 std::int64_t hdim, std::uint16_t bits, Part part) {
  const auto chunks = static_cast<unsigned>(hdim / kVector);
  const auto row_chunks = static_cast<unsigned>(heads) * chunks;
  const uint4 vector = make_uint4(twice(bits), twice(bits), twice(bits), twice(bits));
  for (std::int64_t row = rows.begin + part.index; row < rows.end; row += part.count) {
    for (unsigned i = threadIdx.x; i < row_chunks; i += kThreads) {
      const unsigned head = i / chunks;
      auto* to = static_cast<std::uint16_t*>(t.data) + row_offset(t, batch, row, head) + (i - head * chunks) * kVector;
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(vector) == 0) {
        *reinterpret_cast<uint4*>(to) = vector;
      } else {
        for (int e = 0; e < kVector; ++e) to[e] = bits;
      }
    }
  }
}

/// A refused call: every gradient that the kernel writes is NaN.
template <class Instance>
__device__ inline void fill_with_nan(const KernelParams& params) {
  constexpr BackwardConfig kConfig = Instance::kConfig;
  constexpr std::uint16_t kNan = kConfig.dtype == DataType::bf16 ? 0x7fc0 : 0x7e00;
  constexpr int kThreads = kConfig.threads();
  const Problem& p = params.problem;
  const Part part{blockIdx.x, gridDim.x};
  for (std::int64_t batch = 0; batch < (p.is_group_mode ? 1 : p.batch); ++batch) {
    const IndexRange rows_of_k{0, p.is_group_mode ? p.total_k : p.max_seqlen_k};
    fill_rows<kThreads>(params.dk, batch, rows_of_k, p.nhead_k, p.hdim_q, kNan, part);
    fill_rows<kThreads>(params.dv, batch, rows_of_k, p.nhead_k, p.hdim_v, kNan, part);
    if constexpr (kConfig.is_direct) {
      const IndexRange rows_of_q{0, p.is_group_mode ? p.total_q : p.max_seqlen_q};
      fill_rows<kThreads>(params.dq, batch, rows_of_q, p.nhead_q, p.hdim_q, kNan, part);
    }
  }
}

/// Rows behind the last sequence get zero gradients: a part of them. Each job does its part, so that these stores go
/// on beside the other blocks' arithmetic.
template <class Instance>
__device__ inline void clear_tail(const KernelParams& params, Part part) {
  constexpr int kThreads = Instance::kConfig.threads();
  const Problem& p = params.problem;
  if (!p.is_group_mode) return;
  const IndexRange rows_of_q{packed_rows(p, params.lengths, SequenceSide::q), p.total_q};
  const IndexRange rows_of_k{packed_rows(p, params.lengths, SequenceSide::k), p.total_k};
  fill_rows<kThreads>(params.dq, 0, rows_of_q, p.nhead_q, p.hdim_q, 0, part);
  fill_rows<kThreads>(params.dk, 0, rows_of_k, p.nhead_k, p.hdim_q, 0, part);
  fill_rows<kThreads>(params.dv, 0, rows_of_k, p.nhead_k, p.hdim_v, 0, part);
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

template <class Instance>
__global__ void __launch_bounds__(Instance::kConfig.threads(), 1)
    backward_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                    const FMHAX_KERNEL_PARAMETER BackwardArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = BackwardKernel<Instance>;
  constexpr BackwardConfig kConfig = Instance::kConfig;
  if (kConfig.is_direct ? refuses_lengths(params) : params.nsplits[0] == kInvalidCall) {
    return fill_with_nan<Instance>(params);
  }
  auto& shared = *reinterpret_cast<typename Kernel::Shared*>(shared_bytes);
  const JobFinder<kConfig> jobs(params, arguments);
  TileJob& job = shared.job;
  const bool finds_jobs = threadIdx.x < arch::kWarpSize;
  if (finds_jobs) {
    TileJob first;
    first.index = blockIdx.x;
    if (first.index < jobs.count()) jobs.find(first);
    if (threadIdx.x == 0) job = first;
  }
  Kernel kernel(params, arguments, shared);
  while (true) {
    __syncthreads();
    if (job.index >= jobs.count()) break;
    if (!job.adds) clear_tail<Instance>(params, {job.index, jobs.count()});
    kernel.run();
    __syncthreads();
    if (!finds_jobs) continue;
    TileJob next = job;
    if (++next.tiles.begin < next.tiles.end) {
      next.adds = true;
      jobs.begin_tile(next);
    } else {
      next.index += gridDim.x;
      if (next.index < jobs.count()) jobs.find(next);
    }
    arch::sync_warp();
    if (threadIdx.x == 0) job = next;
  }
  if (jobs.count() == 0) clear_tail<Instance>(params, {blockIdx.x, gridDim.x});
}

}  // namespace fmhax::portable
