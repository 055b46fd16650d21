// d = rowsum(dout * o) - dlse. Bound by memory: a few lanes take a row, each 16 bytes of it at a time.
#include "auxiliary.hpp"
#include "elements.cuh"
#include "launch.hpp"
#include "places.cuh"

namespace fmhax::portable {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsInFlight = 2;  // per thread; more costs registers and brings nothing

template <int kLanes>
constexpr int kTileRows = kThreads / kLanes* kRowsInFlight;

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
__device__ bool is_real(const KernelParams& params, std::int64_t batch, std::int64_t row) {
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

template <DataType kDtype, int kLanes>
__global__ __launch_bounds__(kThreads) void dot_do_o_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                                                            const FMHAX_KERNEL_PARAMETER DotArguments arguments) {
  const Problem& p = params.problem;
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows = p.is_group_mode ? packed_rows(p, params.lengths, SequenceSide::q) : p.max_seqlen_q;
  const std::int64_t rows_heads = rows * p.nhead_q;
  const std::int64_t tiles = (rows_heads + kTileRows<kLanes> - 1) / kTileRows<kLanes>;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const bool has_column = lane * kVector < p.hdim_v;

  for (std::int64_t tile = blockIdx.x; tile < tiles * batches; tile += gridDim.x) {
    const std::int64_t batch = tile / tiles;
    const std::int64_t first = (tile - batch * tiles) * kTileRows<kLanes>;
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

template <DataType kDtype, int kLanes>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  const bool is_aligned = has_aligned_rows(params.dout, kDtype) && has_aligned_rows(params.o, kDtype);
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const std::int64_t rows = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  const std::int64_t tiles = batches * ceil_div(rows * p.nhead_q, kTileRows<kLanes>);
  set_launch(launch, reinterpret_cast<const void*>(dot_do_o_kernel<kDtype, kLanes>), grid_size(tiles, traits), kThreads,
             params);
  add_argument(launch, sizeof(params), DotArguments{is_aligned});
  return true;
}

template <DataType kDtype>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const std::int64_t vectors = params.problem.hdim_v / kVector;
  if (vectors <= 1) return form<kDtype, 1>(traits, params, launch);
  if (vectors <= 2) return form<kDtype, 2>(traits, params, launch);
  if (vectors <= 4) return form<kDtype, 4>(traits, params, launch);
  if (vectors <= 8) return form<kDtype, 8>(traits, params, launch);
  if (vectors <= 16) return form<kDtype, 16>(traits, params, launch);
  return form<kDtype, 32>(traits, params, launch);
}

}  // namespace

bool form_dot_do_o(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return params.problem.dtype == DataType::fp16 ? form<DataType::fp16>(traits, params, launch)
                                                : form<DataType::bf16>(traits, params, launch);
}

}  // namespace fmhax::portable
