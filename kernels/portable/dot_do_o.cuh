/// @file d = rowsum(dout * o) - dlse by the blocks of a launch. Bound by memory: a few lanes take a row, each 16 bytes
/// of it at a time.
#pragma once

#include "block_ops.cuh"
#include "elements.cuh"
#include "job_order.hpp"
#include "launch.hpp"
#include "places.cuh"

namespace fmhax::portable {

inline constexpr int kRowsInFlight = 2;  ///< per thread; more costs registers and brings nothing

/// Rows, each of one head, that a block takes at a time.
template <int kLanes, int kThreads>
constexpr int kDotTileRows = kThreads / kLanes* kRowsInFlight;

struct DotArguments {
  bool is_aligned = false;  ///< every row of dout and o begins at a multiple of 16 bytes
};

/// Row and head of a counter that runs over both, along the memory of dout.
struct RowHead {
  std::int64_t row;
  std::int64_t head;
};

/// Counts from a tile's first (row, head): one long division a tile, short ones for its rows.
class RowHeadCounter {
 public:
  __device__ RowHeadCounter(const KernelParams& params, std::int64_t rows, std::int64_t first)
      : heads_are_inner_(params.dout.stride_nhead <= params.dout.stride_seqlen),
        inner_(static_cast<std::uint32_t>(heads_are_inner_ ? params.problem.nhead_q : rows)),
        outer_(first / inner_),
        start_(static_cast<std::uint32_t>(first - outer_ * inner_)) {}

  __device__ RowHead operator()(std::uint32_t i) const {
    const std::uint32_t from_start = start_ + i;
    const std::uint32_t steps = from_start / inner_;
    const std::int64_t outer = outer_ + steps;
    const std::int64_t inner = from_start - steps * inner_;
    return heads_are_inner_ ? RowHead{outer, inner} : RowHead{inner, outer};
  }

 private:
  bool heads_are_inner_;
  std::uint32_t inner_;
  std::int64_t outer_;
  std::uint32_t start_;
};

/// Whether a row (within its batch entry) is a real token.
__device__ inline bool is_real(const KernelParams& params, std::int64_t batch, std::int64_t row) {
  const Problem& p = params.problem;
  if (p.logical_lengths == LogicalLengths::none) return true;
  const std::int64_t sequence = p.is_group_mode ? find_sequence(params.lengths.seqstart_q, p.batch, row) : batch;
  const SequenceRange range = sequence_range(p, params.lengths, SequenceSide::q, sequence);
  return row - range.start < range.logical;
}

/// A thread's vectors of dout and o; zeros where it has none.
struct Vectors {
  uint4 dout[kRowsInFlight] = {};
  uint4 o[kRowsInFlight] = {};
};

template <bool kIsAligned>
__device__ Vectors load_vectors(const KernelParams& params, std::int64_t batch, const RowHead (&place)[kRowsInFlight],
                                const bool (&is_loaded)[kRowsInFlight], int column) {
  Vectors vectors;
#pragma unroll
  for (int u = 0; u < kRowsInFlight; ++u) {
    if (!is_loaded[u]) continue;
    const auto at = [&](const TensorRef& tensor) {
      return static_cast<const std::uint16_t*>(tensor.data) + row_offset(tensor, batch, place[u].row, place[u].head) +
             column;
    };
    vectors.dout[u] = load_vector<kIsAligned>(at(params.dout));
    vectors.o[u] = load_vector<kIsAligned>(at(params.o));
  }
  return vectors;
}

/// This block's share of the rows.
template <DataType kDtype, int kLanes, int kThreads>
__device__ void dot_do_o(const KernelParams& params, const DotArguments& arguments, const Part& block) {
  const Problem& p = params.problem;
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows = p.is_group_mode ? packed_rows(p, params.lengths, SequenceSide::q) : p.max_seqlen_q;
  const std::int64_t rows_heads = rows * p.nhead_q;
  constexpr int kTileRows = kDotTileRows<kLanes, kThreads>;
  const std::int64_t tiles = (rows_heads + kTileRows - 1) / kTileRows;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const bool has_column = lane * kVector < p.hdim_v;

  for (std::int64_t tile = block.index; tile < tiles * batches; tile += block.count) {
    const std::int64_t batch = tile / tiles;
    const std::int64_t first = (tile - batch * tiles) * kTileRows;
    const RowHeadCounter counter(params, rows, first);
    RowHead place[kRowsInFlight] = {};
    bool is_wanted[kRowsInFlight];
    bool is_loaded[kRowsInFlight];
#pragma unroll
    for (int u = 0; u < kRowsInFlight; ++u) {
      const std::uint32_t i = threadIdx.x / kLanes + u * (kThreads / kLanes);
      is_wanted[u] = first + i < rows_heads;
      if (is_wanted[u]) place[u] = counter(i);
      is_loaded[u] = is_wanted[u] && has_column && is_real(params, batch, place[u].row);
    }
    const Vectors vectors = arguments.is_aligned ? load_vectors<true>(params, batch, place, is_loaded, lane * kVector)
                                                 : load_vectors<false>(params, batch, place, is_loaded, lane * kVector);
#pragma unroll
    for (int u = 0; u < kRowsInFlight; ++u) {
      float sum = dot<kDtype>(vectors.dout[u], vectors.o[u]);
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += arch::shuffle_xor(sum, distance);
      if (!is_wanted[u] || lane != 0) continue;
      if (p.has_dlse && is_real(params, batch, place[u].row)) {
        sum -= static_cast<const float*>(params.dlse.data)[row_offset(params.dlse, batch, place[u].row, place[u].head)];
      }
      static_cast<float*>(params.d.data)[row_offset(params.d, batch, place[u].row, place[u].head)] = sum;
    }
  }
}

inline DotArguments dot_arguments(const KernelParams& params) {
  const DataType dtype = params.problem.dtype;
  return {has_aligned_rows(params.dout, dtype) && has_aligned_rows(params.o, dtype)};
}

/// Tiles of the capacity.
template <int kLanes, int kThreads>
std::int64_t dot_tile_count(const Problem& p) {
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  return batches * ceil_div(rows * p.nhead_q, kDotTileRows<kLanes, kThreads>);
}

/// form(type, lanes), both integral_constants: the problem's data type, and the lanes that take a row.
template <typename Form>
bool form_by_type_and_lanes(const Problem& p, const Form& form) {
  const auto by_lanes = [&](auto type) {
    const std::int64_t vectors = p.hdim_v / kVector;
    if (vectors <= 1) return form(type, std::integral_constant<int, 1>{});
    if (vectors <= 2) return form(type, std::integral_constant<int, 2>{});
    if (vectors <= 4) return form(type, std::integral_constant<int, 4>{});
    if (vectors <= 8) return form(type, std::integral_constant<int, 8>{});
    return vectors <= 16 ? form(type, std::integral_constant<int, 16>{})
                         : form(type, std::integral_constant<int, 32>{});
  };
  return p.dtype == DataType::fp16 ? by_lanes(std::integral_constant<DataType, DataType::fp16>{})
                                   : by_lanes(std::integral_constant<DataType, DataType::bf16>{});
}

}  // namespace fmhax::portable
