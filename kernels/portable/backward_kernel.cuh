/// @file The kernel function around BackwardKernel: a block's jobs, refused calls, rows of no sequence.
#pragma once

#include "backward.cuh"
#include "places.cuh"
#include "status.cuh"

namespace fmhax::portable {

/// The threads of one part of a block fill a part of rows [rows.begin, rows.end) of a 16-bit tensor, all heads.
__device__ inline void fill_rows(const TensorRef& t, std::int64_t batch, IndexRange rows, std::int64_t heads,
                                 std::int64_t hdim, std::uint16_t bits, const Part& part, const Part& threads) {
  const std::int64_t rows_each = (rows.end - rows.begin + part.count - 1) / part.count;
  const std::int64_t begin = rows.begin + part.index * rows_each;
  const std::int64_t end = begin + rows_each < rows.end ? begin + rows_each : rows.end;
  // A thread fills the same 16 bytes of every step-th head, counted through all rows of the part: the way from one to
  // the next is one of two constants.
  const auto chunks = static_cast<unsigned>(hdim / kVector);
  const auto thread = static_cast<unsigned>(threads.index);
  const unsigned step = static_cast<unsigned>(threads.count) / chunks;
  const unsigned first = thread / chunks;
  if (first >= step || begin >= end) return;
  const auto heads_of_row = static_cast<unsigned>(heads);
  const unsigned step_rows = step / heads_of_row;
  const unsigned step_heads = step % heads_of_row;
  const std::int64_t advance = step_rows * t.stride_seqlen + step_heads * t.stride_nhead;
  const std::int64_t next_row = t.stride_seqlen - heads * t.stride_nhead;
  unsigned head = first % heads_of_row;
  auto* to = static_cast<std::uint16_t*>(t.data) + row_offset(t, batch, begin + first / heads_of_row, head) +
             (thread - first * chunks) * kVector;
  const auto fill = [&](auto&& store) {
#pragma unroll 4
    for (std::int64_t i = first; i < (end - begin) * heads; i += step) {
      store(to);
      to += advance;
      head += step_heads;
      if (head >= heads_of_row) {
        head -= heads_of_row;
        to += next_row;
      }
    }
  };
  const std::int64_t strides = t.stride_batch | t.stride_seqlen | t.stride_nhead;
  if (reinterpret_cast<std::uintptr_t>(t.data) % sizeof(uint4) == 0 && strides % kVector == 0) {
    const std::uint32_t pair = twice(bits);
    fill([pair](std::uint16_t* chunk) {
      arch::store_streaming(reinterpret_cast<uint4*>(chunk), make_uint4(pair, pair, pair, pair));
    });
  } else {
    fill([bits](std::uint16_t* chunk) {
      for (int e = 0; e < kVector; ++e) chunk[e] = bits;
    });
  }
}

/// A refused call: every gradient that the kernel writes is NaN.
template <class Instance>
__device__ inline void fill_with_nan(const KernelParams& params) {
  constexpr BackwardConfig kConfig = Instance::kConfig;
  constexpr std::uint16_t kNan = kConfig.dtype == DataType::bf16 ? 0x7fc0 : 0x7e00;
  const Problem& p = params.problem;
  const Part part{blockIdx.x, gridDim.x};
  const Part threads{threadIdx.x, kConfig.threads()};
  for (std::int64_t batch = 0; batch < (p.is_group_mode ? 1 : p.batch); ++batch) {
    const IndexRange rows_of_k{0, p.is_group_mode ? p.total_k : p.max_seqlen_k};
    fill_rows(params.dk, batch, rows_of_k, p.nhead_k, p.hdim_q, kNan, part, threads);
    fill_rows(params.dv, batch, rows_of_k, p.nhead_k, p.hdim_v, kNan, part, threads);
    if constexpr (kConfig.is_direct) {
      const IndexRange rows_of_q{0, p.is_group_mode ? p.total_q : p.max_seqlen_q};
      fill_rows(params.dq, batch, rows_of_q, p.nhead_q, p.hdim_q, kNan, part, threads);
    }
  }
}

/// Rows behind the last sequence get zero gradients: a part of them.
__device__ inline void clear_tail(const KernelParams& params, const Part& part, const Part& threads) {
  const Problem& p = params.problem;
  if (!p.is_group_mode || part.index < 0 || part.index >= part.count) return;
  const IndexRange rows_of_q{packed_rows(p, params.lengths, SequenceSide::q), p.total_q};
  const IndexRange rows_of_k{packed_rows(p, params.lengths, SequenceSide::k), p.total_k};
  fill_rows(params.dq, 0, rows_of_q, p.nhead_q, p.hdim_q, 0, part, threads);
  fill_rows(params.dk, 0, rows_of_k, p.nhead_k, p.hdim_q, 0, part, threads);
  fill_rows(params.dv, 0, rows_of_k, p.nhead_k, p.hdim_v, 0, part, threads);
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

/// Where the kernel's second parameter lies.
inline constexpr std::size_t kSecondParameter =
    (sizeof(KernelParams) + alignof(BackwardArguments) - 1) / alignof(BackwardArguments) * alignof(BackwardArguments);

template <class Instance>
__global__ void __launch_bounds__(Instance::kConfig.threads(), 1)
    backward_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                    const FMHAX_KERNEL_PARAMETER BackwardArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = BackwardKernel<Instance>;
  constexpr BackwardConfig kConfig = Instance::kConfig;
  if constexpr (kConfig.is_available) {
    if (kConfig.is_direct ? refuses_lengths(params) : params.nsplits[0] == kInvalidCall) {
      return fill_with_nan<Instance>(arch::read_again<0>(params));
    }
    auto& shared = *reinterpret_cast<typename Kernel::Shared*>(shared_bytes);
    // Made anew where it is used, as it would live in registers through the steps.
    const auto jobs = [&] {
      return JobFinder<kConfig>(arch::read_again<0>(params), arch::read_again<kSecondParameter>(arguments));
    };
    TileJob& job = shared.job;
    BlockShare share = block_share(blockIdx.x, gridDim.x, arguments.side_by_side, jobs().count());
    const int blocks = arch::computed_here(static_cast<int>(gridDim.x));  // not in a scalar register through the steps
    bool has_tile = false;
    do {
      if (has_tile) {
        if (threadIdx.x == 0) jobs().next_tile(job);
      } else if (threadIdx.x >= arch::kWarpSize) {
        // While the first warp finds a job, which is a chain of reads, the others clear the job's part of the tail.
        const Part part = tail_part(share.first, blocks,
                                    arch::computed_here(arch::read_again<kSecondParameter>(arguments).side_by_side),
                                    arch::computed_here(jobs().count()));
        clear_tail(arch::read_again<0>(params), part,
                   {threadIdx.x - arch::kWarpSize, kConfig.threads() - arch::kWarpSize});
      } else if (share.first < share.end) {
        TileJob next;
        next.index = share.first;
        next.end = share.end;
        jobs().find(next);
        if (threadIdx.x == 0) job = next;
      }
      if (share.first >= share.end) break;
      __syncthreads();
      Kernel(arch::read_again<0>(params), arch::read_again<kSecondParameter>(arguments), shared).run();
      // Read again, so that no register holds it meanwhile.
      has_tile = job.tiles.begin + 1 < job.tiles.end;
      share = {job.index + (has_tile ? 0 : arch::read_again<kSecondParameter>(arguments).side_by_side), job.end};
      __syncthreads();
    } while (share.first < share.end);
  }
}

}  // namespace fmhax::portable
