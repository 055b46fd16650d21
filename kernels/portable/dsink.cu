// dsink[h] = -sum of exp(sink[h] - lse) * d over the real rows of head h: one block a head, the same order every time.
#include "auxiliary.hpp"
#include "block_ops.cuh"
#include "elements.cuh"
#include "fmhax/contract/workspace.hpp"
#include "launch.hpp"
#include "places.cuh"

namespace fmhax::portable {
namespace {

constexpr int kThreads = 1024;

/// Whether a row is a real token; `row` counts packed rows in group mode, else within the sequence.
__device__ bool is_real(const KernelParams& params, std::int64_t sequence, std::int64_t row) {
  const Problem& p = params.problem;
  if (p.logical_lengths == LogicalLengths::none) return true;
  const SequenceRange range = sequence_range(p, params.lengths, SequenceSide::q, sequence);
  return row - range.start < range.logical;
}

__device__ float term(const KernelParams& params, std::int64_t batch, std::int64_t row, std::int64_t head, float sink) {
  const float lse = static_cast<const float*>(params.lse.data)[row_offset(params.lse, batch, row, head)];
  const float d = static_cast<const float*>(params.d.data)[row_offset(params.d, batch, row, head)];
  return expf(sink - lse) * d;
}

/// This thread's share of a head.
__device__ float sum_of(const KernelParams& params, std::int64_t head) {
  const Problem& p = params.problem;
  const float sink = params.sink[head];
  float sum = 0.0F;
  if (p.is_group_mode) {
    const std::int64_t rows = packed_rows(p, params.lengths, SequenceSide::q);
    for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) {
      const bool has_padding = p.logical_lengths != LogicalLengths::none;
      const std::int64_t sequence = has_padding ? find_sequence(params.lengths.seqstart_q, p.batch, row) : 0;
      if (is_real(params, sequence, row)) sum += term(params, 0, row, head, sink);
    }
    return sum;
  }
  const std::int64_t rows = p.batch * p.max_seqlen_q;
  for (std::int64_t i = threadIdx.x; i < rows; i += kThreads) {
    const std::int64_t sequence = i / p.max_seqlen_q;
    const std::int64_t row = i - sequence * p.max_seqlen_q;
    if (is_real(params, sequence, row)) sum += term(params, sequence, row, head, sink);
  }
  return sum;
}

__global__ __launch_bounds__(kThreads) void dsink_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params) {
  __shared__ BlockMemory<float, kThreads> memory;
  const Problem& p = params.problem;
  const bool is_refused =
      params.nsplits != nullptr ? params.nsplits[0] == kInvalidCall : lengths_are_refused(p, params.lengths);
  for (std::int64_t head = blockIdx.x; head < p.nhead_q; head += gridDim.x) {
    __syncthreads();  // the head before this one is done with
    const float sum = block_reduce<kThreads>(is_refused ? 0.0F : sum_of(params, head), 0.0F, SumOf<float>(), memory);
    if (threadIdx.x == 0) params.dsink[head] = is_refused ? __int_as_float(0x7fc00000) : -sum;
  }
}

}  // namespace

bool form_dsink(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return set_launch(launch, reinterpret_cast<const void*>(dsink_kernel), grid_size(params.problem.nhead_q, traits),
                    kThreads, params);
}

}  // namespace fmhax::portable
