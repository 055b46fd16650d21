/// @file The kernel function around BackwardKernel: which tiles a block takes, refused calls, rows of no sequence.
#pragma once

#include "backward.cuh"
#include "fmhax/contract/workspace.hpp"
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

/// Finds out what a job is: the first warp of a block does, all lanes together.
template <BackwardConfig kConfig>
class JobFinder {
 public:
  __device__ JobFinder(const KernelParams& params, const BackwardArguments& arguments)
      : params_(params), arguments_(arguments), p_(params.problem) {}

  /// Jobs of the call.
  __device__ std::int64_t count() const {
    return !kConfig.is_direct && p_.is_group_mode ? params_.tile_starts[p_.batch] * p_.nhead_k : arguments_.jobs;
  }

  /// The job's index is set; everything else follows.
  __device__ void find(TileJob& job) const {
    job.adds = false;
    if constexpr (kConfig.is_direct) {
      job.sequence = job.index / p_.nhead_k;
      job.head_k = job.index % p_.nhead_k;
      take(job, 0);
    } else if (p_.is_group_mode) {
      const std::int64_t of_head = job.index / p_.nhead_k;
      const std::int64_t place = find_sequence_by_warp(params_.tile_starts, p_.batch, of_head);
      job.sequence = params_.tile_sequences[place];
      job.head_k = job.index % p_.nhead_k;
      take(job, of_head - params_.tile_starts[place]);
    } else {
      // Pairs of a sequence and a key head, heads_together of them side by side, tile by tile.
      const std::int64_t together = arguments_.heads_together;
      const std::int64_t per_head = arguments_.jobs_per_head;
      const std::int64_t section = job.index / (per_head * together);
      const std::int64_t left = p_.batch * p_.nhead_k - section * together;
      const std::int64_t here = left < together ? left : together;
      const std::int64_t within = job.index - section * per_head * together;
      const std::int64_t pair = section * together + within % here;
      job.sequence = pair / p_.nhead_k;
      job.head_k = pair % p_.nhead_k;
      take(job, within / here);
    }
  }

 private:
  __device__ void take(TileJob& job, std::int64_t of_sequence) const {
    job.q = sequence_range(p_, params_.lengths, SequenceSide::q, job.sequence);
    job.k = sequence_range(p_, params_.lengths, SequenceSide::k, job.sequence);
    job.tiles = {of_sequence, of_sequence + 1};
    job.split = 0;
    if (!kConfig.is_direct && p_.is_deterministic) {
      const std::int32_t nsplits = params_.nsplits[p_.is_group_mode ? job.sequence : 0];
      job.split = of_sequence;
      job.tiles = split_range(key_tiles(kConfig.tile_keys(), job.k.physical), nsplits, of_sequence);
    }
    job.tile.group = static_cast<int>(p_.nhead_q / p_.nhead_k);
    job.tile.seqlen_q = static_cast<int>(job.q.logical);
    job.tile.seqlen_k = static_cast<int>(job.k.logical);
    begin_tile(job);
  }

 public:
  /// Of the tiles that are left of the job, the first.
  __device__ void begin_tile(TileJob& job) const {
    constexpr int kM = kConfig.kM;
    const std::int64_t key_begin = job.tiles.begin * kConfig.tile_keys();
    job.tile.key_begin = static_cast<int>(key_begin);
    job.tile.first_row = 0;
    job.tile.end_row = static_cast<int>(job.q.physical);
    if constexpr (!kConfig.is_direct) {
      const std::int64_t key_end = key_begin + kConfig.tile_keys();
      const IndexRange rows = rows_seeing(p_.mask, job.q.logical, job.k.logical,
                                          {key_begin, key_end < job.k.logical ? key_end : job.k.logical});
      job.tile.first_row = static_cast<int>(rows.begin / kM * kM);
      job.tile.end_row = static_cast<int>(rows.end);
    }
  }

 private:
  const KernelParams& params_;
  const BackwardArguments& arguments_;
  const Problem& p_;
};

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
