// dbias = dS summed over the axes that dbias is broadcast over. A block owns a tile of dbias, computes S and dP of
// every (sequence, head) that adds to it, one after another, and writes the tile once: no atomics, the same sum every
// time.
#include "auxiliary.hpp"
#include "fmhax/contract/workspace.hpp"
#include "launch.hpp"
#include "places.cuh"
#include "score_tile.cuh"
#include "tile_copy.cuh"

namespace fmhax::portable {
namespace {

struct DbiasArguments {
  std::int64_t row_tiles = 0;  ///< of one batch entry of dbias
  bool is_aligned = false;
};

template <DataType kDtype, int kHdim>
struct DbiasKernel {
  // As for forward, one number for all AMD GPUs.
  static constexpr int kTileKeys = kTileSet == TileSet::nvidia || kHdim <= 128 ? 64 : 32;
  static constexpr int kScores = kTileKeys / 16;
  static constexpr int kPitch = kHdim + kVector;

  struct Shared {
    std::uint16_t rows[kTileRows * kPitch];  ///< of q, then of dout
    std::uint16_t keys[kTileKeys * kPitch];  ///< of k, then of v
  };
  static_assert(kTileSet == TileSet::nvidia || sizeof(Shared) <= kSharedBytesOfAmd);

  const KernelParams& params;
  const DbiasArguments& arguments;
  Shared& shared;

  std::int64_t sequence = 0, first_row = 0, first_key = 0;
  SequenceRange q{}, k{};
  ScoreTile<kScores> sum;

  __device__ DbiasKernel(const KernelParams& p, const DbiasArguments& a, Shared& s)
      : params(p), arguments(a), shared(s) {}

  __device__ std::int64_t tensor_batch() const { return params.problem.is_group_mode ? 0 : sequence; }
  __device__ std::int64_t warp_row() const { return first_row + threadIdx.x / kLanes * 16; }

  template <int kRows>
  __device__ void load(std::uint16_t* to, const TensorRef& tensor, const SequenceRange& range, std::int64_t row,
                       std::int64_t head, std::int64_t hdim) {
    using Copy = TileCopy<kRows, kHdim, kPitch, kTileThreads>;
    const auto* tile =
        static_cast<const std::uint16_t*>(tensor.data) + row_offset(tensor, tensor_batch(), range.start + row, head);
    const auto thread = static_cast<int>(threadIdx.x);
    Copy::run(thread, to, Copy::source(thread, tile, tensor.stride_seqlen), tensor.stride_seqlen,
              static_cast<int>(min(range.logical - row, std::int64_t{kRows})), static_cast<int>(hdim),
              arguments.is_aligned);
  }

  /// rows * keys^T of one product, through shared memory.
  __device__ void multiply(ScoreTile<kScores>& product, const TensorRef& row_tensor, const TensorRef& key_tensor,
                           std::int64_t head, std::int64_t hdim) {
    const std::int64_t key_head = head / (params.problem.nhead_q / params.problem.nhead_k);
    __syncthreads();  // the product before this one is done with
    load<kTileRows>(shared.rows, row_tensor, q, first_row, head, hdim);
    load<kTileKeys>(shared.keys, key_tensor, k, first_key, key_head, hdim);
    wait_for_copies();
    __syncthreads();
    product.template multiply<kDtype, kHdim>(shared.rows + threadIdx.x / kLanes * 16 * kPitch, shared.keys);
  }

  /// Adds dS of one head of the sequence.
  __device__ void add(std::int64_t head) {
    const Problem& p = params.problem;
    const std::int64_t end_row = min(first_row + kTileRows, q.logical);
    const std::int64_t end_key = min(first_key + kTileKeys, k.logical);
    if (end_row <= first_row || end_key <= first_key) return;
    const IndexRange seeing = rows_seeing(p.mask, q.logical, k.logical, {first_key, end_key});
    if (seeing.begin >= end_row || seeing.end <= first_row) return;
    const LogitFeatures logits = logit_features(params, sequence, head, q, k);
    const DropoutFeatures dropout = dropout_features(params, sequence, head);
    ScoreTile<kScores> probability{};
    ScoreTile<kScores> dp{};
    multiply(probability, params.q, params.k, head, p.hdim_q);
    multiply(dp, params.dout, params.v, head, p.hdim_v);
    if (dropout.is_on) drop(dropout, dp);
    const VisibleKeys visible(p.mask, q, k, warp_row());
#pragma unroll
    for (int r = 0; r < Accumulator::kRows; ++r) {
      const std::int64_t row = warp_row() + Accumulator::row(r);
      if (row >= q.logical) continue;
      const float lse = row_value(params.lse, row, head);
      if (lse == -INFINITY) continue;  // a bias of -infinity hides every key
      const float d = row_value(params.d, row, head);
#pragma unroll
      for (int t = 0; t < kScores; ++t) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
          const int i = Accumulator::element(r, c);
          const std::int32_t key = static_cast<std::int32_t>(first_key) + t * 16 + Accumulator::column(c);
          if (!visible.contains(r, key)) continue;
          const float score = params.scale * probability.tile[t].value[i];
          const float logit = logits.template logit<kDtype>(score, static_cast<std::int32_t>(row), key).value;
          sum.tile[t].value[i] += arch::fast_exp2((logit - lse) * kLog2E) * (dp.tile[t].value[i] - d);
        }
      }
    }
  }

  __device__ float row_value(const TensorRef& tensor, std::int64_t row, std::int64_t head) const {
    return static_cast<const float*>(tensor.data)[row_offset(tensor, tensor_batch(), q.start + row, head)];
  }

  __device__ void drop(const DropoutFeatures& dropout, ScoreTile<kScores>& dp) {
    float factors[kScores][Accumulator::kRows * Accumulator::kColumns];
    dropout_factors<false, kScores>(
        dropout,
        [&](int t) {
          return int2{static_cast<int>(warp_row()), static_cast<int>(first_key) + t * 16};
        },
        factors);
#pragma unroll
    for (int t = 0; t < kScores; ++t) {
#pragma unroll
      for (int i = 0; i < Accumulator::kRows * Accumulator::kColumns; ++i) dp.tile[t].value[i] *= factors[t][i];
    }
  }

  /// Writes the tile's rows before `end_row`, from packed row `start` on.
  __device__ void store(std::int64_t dbias_batch, std::int64_t dbias_head, std::int64_t start, std::int64_t end_row) {
    auto* base =
        static_cast<std::uint16_t*>(params.dbias.data) + row_offset(params.dbias, dbias_batch, start, dbias_head);
#pragma unroll
    for (int t = 0; t < kScores; ++t) {
#pragma unroll
      for (int r = 0; r < Accumulator::kRows; ++r) {
        const std::int64_t row = warp_row() + Accumulator::row(r);
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
          const std::int64_t key = first_key + t * 16 + Accumulator::column(c);
          if (row >= end_row || key >= params.problem.max_seqlen_k) continue;
          base[row * params.dbias.stride_seqlen + key] =
              static_cast<std::uint16_t>(narrow<kDtype>(sum.tile[t].value[Accumulator::element(r, c)], 0.0F));
        }
      }
    }
  }

  /// The tile of dbias at first_row, first_key; in group mode of one sequence.
  __device__ void run(std::int64_t dbias_batch, std::int64_t dbias_head) {
    const Problem& p = params.problem;
    sum = {};
    const bool sums_heads = params.dbias_nhead == 1;
    const bool sums_batch = !p.is_group_mode && params.dbias_batch == 1;
    const std::int64_t begin = p.is_group_mode ? sequence : (sums_batch ? 0 : dbias_batch);
    const std::int64_t end = sums_batch ? p.batch : begin + 1;
    for (sequence = begin; sequence < end; ++sequence) {
      q = sequence_range(p, params.lengths, SequenceSide::q, sequence);
      k = sequence_range(p, params.lengths, SequenceSide::k, sequence);
      for (std::int64_t head = sums_heads ? 0 : dbias_head; head < (sums_heads ? p.nhead_q : dbias_head + 1); ++head) {
        add(head);
      }
    }
    store(p.is_group_mode ? 0 : dbias_batch, dbias_head, p.is_group_mode ? q.start : 0,
          p.is_group_mode ? q.physical : p.max_seqlen_q);
  }

  /// Rows [begin, end) of the whole of dbias become `bits`, dealt to all threads of the grid.
  __device__ void fill_rows(std::int64_t begin, std::int64_t end, std::uint16_t bits) {
    const std::int64_t keys = params.problem.max_seqlen_k;
    const std::int64_t rows = end - begin;
    const std::int64_t count = rows * keys * params.dbias_nhead * params.dbias_batch;
    for (std::int64_t i = blockIdx.x * std::int64_t{kTileThreads} + threadIdx.x; i < count;
         i += gridDim.x * std::int64_t{kTileThreads}) {
      const std::int64_t row = i / keys % rows;
      const std::int64_t head = i / keys / rows % params.dbias_nhead;
      const std::int64_t batch = i / keys / rows / params.dbias_nhead;
      static_cast<std::uint16_t*>(params.dbias.data)[row_offset(params.dbias, batch, begin + row, head) + i % keys] =
          bits;
    }
  }
};

template <DataType kDtype, int kHdim>
__global__ __launch_bounds__(kTileThreads) void dbias_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                                                             const FMHAX_KERNEL_PARAMETER DbiasArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = DbiasKernel<kDtype, kHdim>;
  Kernel kernel(params, arguments, *reinterpret_cast<typename Kernel::Shared*>(shared_bytes));
  const Problem& p = params.problem;
  const std::int64_t rows = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  const bool is_refused =
      params.nsplits != nullptr ? params.nsplits[0] == kInvalidCall : lengths_are_refused(p, params.lengths);
  if (is_refused) {
    kernel.fill_rows(0, rows, kDtype == DataType::fp16 ? 0x7e00U : 0x7fc0U);
    return;
  }
  const std::int64_t key_tiles = (p.max_seqlen_k + Kernel::kTileKeys - 1) / Kernel::kTileKeys;
  const std::int64_t jobs = arguments.row_tiles * key_tiles * params.dbias_nhead * params.dbias_batch;
  for (std::int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const std::int64_t tile = job / key_tiles;
    const std::int64_t row_tile = tile % arguments.row_tiles;
    kernel.first_key = (job - tile * key_tiles) * Kernel::kTileKeys;
    kernel.first_row = row_tile * kTileRows;
    if (p.is_group_mode) {
      const RowTile place = find_row_tile(p, params.lengths, SequenceSide::q, kTileRows, row_tile);
      kernel.sequence = place.sequence;
      kernel.first_row = place.begin;
    }
    kernel.run(tile / arguments.row_tiles / params.dbias_nhead, tile / arguments.row_tiles % params.dbias_nhead);
  }
  if (p.is_group_mode) kernel.fill_rows(packed_rows(p, params.lengths, SequenceSide::q), rows, 0U);
}

template <DataType kDtype, int kHdim>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  using Kernel = DbiasKernel<kDtype, kHdim>;
  DbiasArguments arguments;
  arguments.row_tiles =
      p.is_group_mode ? row_tile_count(p, SequenceSide::q, kTileRows) : ceil_div(p.max_seqlen_q, kTileRows);
  arguments.is_aligned = has_aligned_rows(params.q, kDtype) && has_aligned_rows(params.k, kDtype) &&
                         has_aligned_rows(params.v, kDtype) && has_aligned_rows(params.dout, kDtype);
  const std::int64_t tiles = arguments.row_tiles * ceil_div(p.max_seqlen_k, Kernel::kTileKeys);
  const bool has_elements = p.max_seqlen_k > 0 && (p.is_group_mode ? p.total_q : p.max_seqlen_q) > 0;
  const std::int64_t jobs =
      std::max<std::int64_t>(tiles * params.dbias_nhead * params.dbias_batch, has_elements ? 1 : 0);
  set_launch(launch, reinterpret_cast<const void*>(dbias_kernel<kDtype, kHdim>), grid_size(jobs, traits),
             tile_threads(traits), params);
  add_argument(launch, sizeof(params), arguments);
  launch.shared_bytes = sizeof(typename Kernel::Shared);
  return true;
}

}  // namespace

bool form_dbias(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return form_by_type_and_hdim(params.problem, [&](auto type, auto hdim) {
    return form<decltype(type)::value, decltype(hdim)::value>(traits, params, launch);
  });
}

}  // namespace fmhax::portable
