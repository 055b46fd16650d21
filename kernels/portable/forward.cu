// o and lse from q, k and v: a block takes 64 query rows of one head and walks over the keys that they see. For
// samples, tests and training beside the backward kernels, whose features it has.
#include "auxiliary.hpp"
#include "launch.hpp"
#include "places.cuh"
#include "score_tile.cuh"
#include "tile_copy.cuh"

namespace fmhax::portable {
namespace {

struct ForwardArguments {
  std::int64_t tiles = 0;  ///< of query rows
  bool is_aligned = false;
};

template <DataType kDtype, int kHdim, bool kHasFeatures>
struct ForwardKernel {
  // Host code computes the launch's shared memory with the same number: all AMD GPUs have one, that of the smallest.
  static constexpr int kKeys = kHdim <= 128 ? 64 : kTileSet == TileSet::nvidia ? 32 : 16;
  static constexpr int kScores = kKeys / 16;
  static constexpr int kPitch = kHdim + kVector;
  // Lanes that share a row.
  static constexpr int kFirstStep = Accumulator::kLaneStep;
  static constexpr int kEndStep = kFirstStep * 16 / Accumulator::kColumns;

  struct Shared {
    std::uint16_t q[kTileRows * kPitch];
    std::uint16_t k[kKeys * kPitch];
    std::uint16_t v[kKeys * kPitch];
  };
  static_assert(kTileSet == TileSet::nvidia || sizeof(Shared) <= kSharedBytesOfAmd);

  const KernelParams& params;
  const ForwardArguments& arguments;
  Shared& shared;

  std::int64_t sequence = 0, head = 0, first_row = 0;
  SequenceRange q{}, k{};
  LogitFeatures logits{};
  DropoutFeatures dropout{};

  Accumulator o[kHdim / 16];
  float largest[Accumulator::kRows];  ///< logit of each row so far, times log2(e)
  float sum[Accumulator::kRows];      ///< this lane's part of the row's denominator

  __device__ ForwardKernel(const KernelParams& p, const ForwardArguments& a, Shared& s)
      : params(p), arguments(a), shared(s) {}

  __device__ std::int64_t tensor_batch() const { return params.problem.is_group_mode ? 0 : sequence; }
  __device__ std::int64_t warp_row() const { return first_row + threadIdx.x / kLanes * 16; }
  __device__ float* lse_of(std::int64_t row) const {
    return static_cast<float*>(params.lse.data) + row_offset(params.lse, tensor_batch(), q.start + row, head);
  }
  __device__ std::uint16_t* o_of(std::int64_t row) const {
    return static_cast<std::uint16_t*>(params.o.data) + row_offset(params.o, tensor_batch(), q.start + row, head);
  }

  template <int kRows>
  __device__ void load(std::uint16_t* to, const TensorRef& tensor, const SequenceRange& range, std::int64_t row,
                       std::int64_t tensor_head, std::int64_t hdim) {
    using Copy = TileCopy<kRows, kHdim, kPitch, kTileThreads>;
    const auto* tile = static_cast<const std::uint16_t*>(tensor.data) +
                       row_offset(tensor, tensor_batch(), range.start + row, tensor_head);
    const auto thread = static_cast<int>(threadIdx.x);
    Copy::run(thread, to, Copy::source(thread, tile, tensor.stride_seqlen), tensor.stride_seqlen,
              static_cast<int>(min(range.logical - row, std::int64_t{kRows})), static_cast<int>(hdim),
              arguments.is_aligned);
  }

  __device__ void run() {
    const Problem& p = params.problem;
    q = sequence_range(p, params.lengths, SequenceSide::q, sequence);
    if (first_row >= q.physical) return;
    k = sequence_range(p, params.lengths, SequenceSide::k, sequence);
    fill_unseen_padding();
    if (first_row >= q.logical) return;
    const std::int64_t last_row = min(first_row + kTileRows, q.logical) - 1;
    const std::int64_t keys_begin = visible_keys(p.mask, q.logical, k.logical, first_row).begin;
    const std::int64_t keys_end = visible_keys(p.mask, q.logical, k.logical, last_row).end;
    if constexpr (kHasFeatures) {
      logits = logit_features(params, sequence, head, q, k);
      dropout = dropout_features(params, sequence, head);
      if (p.stores_random_values) {
        store_random_values<kTileThreads>(params, dropout, sequence, head, q, {first_row, last_row + 1},
                                          {0, k.logical});
      }
    }
    for (Accumulator& part : o) part = {};
    for (int r = 0; r < Accumulator::kRows; ++r) {
      largest[r] = -INFINITY;
      sum[r] = 0.0F;
    }
    const VisibleKeys visible(p.mask, q, k, warp_row());
    const std::int64_t key_head = head / (p.nhead_q / p.nhead_k);
    __syncthreads();  // the tile before this one is done with
    load<kTileRows>(shared.q, params.q, q, first_row, head, p.hdim_q);
    for (std::int64_t key = keys_begin / kKeys * kKeys; key < keys_end; key += kKeys) {
      __syncthreads();
      load<kKeys>(shared.k, params.k, k, key, key_head, p.hdim_q);
      load<kKeys>(shared.v, params.v, k, key, key_head, p.hdim_v);
      wait_for_copies();
      __syncthreads();
      add_keys(visible, static_cast<std::int32_t>(key));
    }
    wait_for_copies();
    store();
  }

  __device__ void add_keys(const VisibleKeys& visible, std::int32_t key_begin) {
    ScoreTile<kScores> s{};
    s.template multiply<kDtype, kHdim>(shared.q + threadIdx.x / kLanes * 16 * kPitch, shared.k);
    float row_largest[Accumulator::kRows];
#pragma unroll
    for (int r = 0; r < Accumulator::kRows; ++r) {
      const auto row = static_cast<std::int32_t>(warp_row()) + Accumulator::row(r);
      row_largest[r] = -INFINITY;
#pragma unroll
      for (int t = 0; t < kScores; ++t) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
          float& score = s.tile[t].value[Accumulator::element(r, c)];
          const std::int32_t key = key_begin + t * 16 + Accumulator::column(c);
          score *= params.scale;
          if constexpr (kHasFeatures) score = logits.template logit<kDtype>(score, row, key).value;
          score = visible.contains(r, key) ? score * kLog2E : -INFINITY;
          row_largest[r] = fmaxf(row_largest[r], score);
        }
      }
#pragma unroll
      for (int step = kFirstStep; step < kEndStep; step *= 2) {
        row_largest[r] = fmaxf(row_largest[r], arch::shuffle_xor(row_largest[r], step));
      }
    }
    float shrink[Accumulator::kRows];
    float base[Accumulator::kRows];
#pragma unroll
    for (int r = 0; r < Accumulator::kRows; ++r) {
      const float now = fmaxf(largest[r], row_largest[r]);
      base[r] = now == -INFINITY ? 0.0F : now;  // rows that have seen nothing yet
      shrink[r] = arch::fast_exp2(largest[r] - base[r]);
      largest[r] = now;
      sum[r] *= shrink[r];
    }
#pragma unroll
    for (Accumulator& part : o) {
#pragma unroll
      for (int r = 0; r < Accumulator::kRows; ++r) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) part.value[Accumulator::element(r, c)] *= shrink[r];
      }
    }
#pragma unroll
    for (int t = 0; t < kScores; ++t) {
#pragma unroll
      for (int r = 0; r < Accumulator::kRows; ++r) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) {
          float& score = s.tile[t].value[Accumulator::element(r, c)];
          score = arch::fast_exp2(score - base[r]);
          sum[r] += score;
        }
      }
    }
    if constexpr (kHasFeatures) {
      if (dropout.is_on) drop(s, key_begin);
    }
#pragma unroll
    for (int t = 0; t < kScores; ++t) {
      const Operand left = to_operand<kDtype>(s.tile[t]);
#pragma unroll
      for (int c = 0; c < kHdim / 16; ++c) {
        multiply<kDtype>(o[c], left, load_right(shared.v + t * 16 * kPitch + c * 16 + right_offset(kPitch), kPitch));
      }
    }
  }

  __device__ void drop(ScoreTile<kScores>& s, std::int32_t key_begin) {
    float factors[kScores][Accumulator::kRows * Accumulator::kColumns];
    dropout_factors<false, kScores>(
        dropout,
        [&](int t) {
          return int2{static_cast<int>(warp_row()), key_begin + t * 16};
        },
        factors);
#pragma unroll
    for (int t = 0; t < kScores; ++t) {
#pragma unroll
      for (int i = 0; i < Accumulator::kRows * Accumulator::kColumns; ++i) s.tile[t].value[i] *= factors[t][i];
    }
  }

  __device__ void store() {
    const Problem& p = params.problem;
    float inverse[Accumulator::kRows];
#pragma unroll
    for (int r = 0; r < Accumulator::kRows; ++r) {
#pragma unroll
      for (int step = kFirstStep; step < kEndStep; step *= 2) sum[r] += arch::shuffle_xor(sum[r], step);
      float shrink = 1.0F;
      if (kHasFeatures && p.has_sink) {
        const float sink = params.sink[head] * kLog2E;
        const float now = fmaxf(largest[r], sink);
        shrink = arch::fast_exp2(largest[r] - now);
        sum[r] = sum[r] * shrink + arch::fast_exp2(sink - now);
        largest[r] = now;
      }
      inverse[r] = sum[r] > 0.0F ? shrink / sum[r] : 0.0F;
      const std::int64_t row = warp_row() + Accumulator::row(r);
      if (Accumulator::column(0) != 0 || row >= q.logical) continue;
      *lse_of(row) = sum[r] > 0.0F ? (largest[r] + log2f(sum[r])) / kLog2E : -INFINITY;
    }
#pragma unroll
    for (int column = 0; column < kHdim / 16; ++column) {
#pragma unroll
      for (int r = 0; r < Accumulator::kRows; ++r) {
#pragma unroll
        for (int c = 0; c < Accumulator::kColumns; ++c) o[column].value[Accumulator::element(r, c)] *= inverse[r];
      }
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const uint2 quad = packed_quad<kDtype, 1>(o, i, column, 1.0F);
        const std::int64_t row = warp_row() + quad_row(i);
        const int first_column = quad_column<1>(i, column) + packed_column();
        if (row >= q.logical || first_column >= p.hdim_v) continue;
        store_packed(o_of(row) + first_column, quad, arguments.is_aligned);
      }
    }
  }

  /// This tile's rows that are padding.
  __device__ void fill_unseen_padding() {
    const std::int64_t begin = max(first_row, q.logical);
    const std::int64_t end = min(first_row + kTileRows, q.physical);
    for (std::int64_t row = begin + threadIdx.x / kLanes; row < end; row += kTileThreads / kLanes) {
      fill(row, 0U, -INFINITY);
    }
  }

  /// By the lanes of a warp.
  __device__ void fill(std::int64_t row, std::uint16_t bits, float lse) {
    for (std::int64_t column = lane_id(); column < params.problem.hdim_v; column += kLanes) o_of(row)[column] = bits;
    if (lane_id() == 0) *lse_of(row) = lse;
  }

  /// Rows [begin, end) of all heads and batch entries, dealt to the grid's warps.
  __device__ void fill_rows(std::int64_t begin, std::int64_t end, std::uint16_t bits, float lse) {
    const Problem& p = params.problem;
    const std::int64_t rows = end - begin;
    const std::int64_t count = rows * p.nhead_q * (p.is_group_mode ? 1 : p.batch);
    constexpr int kWarps = kTileThreads / kLanes;
    q = {};
    for (std::int64_t i = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / kLanes; i < count;
         i += gridDim.x * std::int64_t{kWarps}) {
      head = i % p.nhead_q;
      sequence = i / p.nhead_q / rows;
      fill(begin + i / p.nhead_q % rows, bits, lse);
    }
  }
};

template <DataType kDtype, int kHdim, bool kHasFeatures>
__global__ __launch_bounds__(kTileThreads) void forward_kernel(
    const FMHAX_KERNEL_PARAMETER KernelParams params, const FMHAX_KERNEL_PARAMETER ForwardArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Kernel = ForwardKernel<kDtype, kHdim, kHasFeatures>;
  Kernel kernel(params, arguments, *reinterpret_cast<typename Kernel::Shared*>(shared_bytes));
  const Problem& p = params.problem;
  const std::int64_t rows = p.is_group_mode ? p.total_q : p.max_seqlen_q;
  if (lengths_are_refused(p, params.lengths)) {
    kernel.fill_rows(0, rows, kDtype == DataType::fp16 ? 0x7e00U : 0x7fc0U, __int_as_float(0x7fc00000));
    return;
  }
  for (std::int64_t job = blockIdx.x; job < arguments.tiles * p.nhead_q; job += gridDim.x) {
    const RowTile tile = find_row_tile(p, params.lengths, SequenceSide::q, kTileRows, job / p.nhead_q);
    kernel.sequence = tile.sequence;
    kernel.first_row = tile.begin;
    kernel.head = job % p.nhead_q;
    kernel.run();
  }
  if (p.is_group_mode) kernel.fill_rows(packed_rows(p, params.lengths, SequenceSide::q), rows, 0U, -INFINITY);
}

template <DataType kDtype, int kHdim, bool kHasFeatures>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  using Kernel = ForwardKernel<kDtype, kHdim, kHasFeatures>;
  ForwardArguments arguments;
  arguments.tiles = row_tile_count(p, SequenceSide::q, kTileRows);
  arguments.is_aligned = has_aligned_rows(params.q, kDtype) && has_aligned_rows(params.k, kDtype) &&
                         has_aligned_rows(params.v, kDtype) && has_aligned_rows(params.o, kDtype);
  const std::int64_t jobs = rows_q(p) > 0 ? std::max<std::int64_t>(arguments.tiles * p.nhead_q, 1) : 0;
  set_launch(launch, reinterpret_cast<const void*>(forward_kernel<kDtype, kHdim, kHasFeatures>),
             grid_size(jobs, traits), tile_threads(traits), params);
  add_argument(launch, sizeof(params), arguments);
  launch.shared_bytes = sizeof(typename Kernel::Shared);
  return true;
}

template <DataType kDtype, int kHdim>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  const bool has_features = p.bias != BiasKind::none || p.has_dropout || p.has_sink || p.has_softcap;
  return has_features ? form<kDtype, kHdim, true>(traits, params, launch)
                      : form<kDtype, kHdim, false>(traits, params, launch);
}

}  // namespace

bool form_forward(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return form_by_type_and_hdim(params.problem, [&](auto type, auto hdim) {
    return form<decltype(type)::value, decltype(hdim)::value>(traits, params, launch);
  });
}

}  // namespace fmhax::portable
