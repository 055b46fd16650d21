// dq = scale * the sum of its splits, in order. Bound by memory: a thread finds out where a row lies, which in packed
// sequences takes longer than reading it, and converts four columns of it in some heads.
#include "arch/layouts.hpp"
#include "auxiliary.hpp"
#include "elements.cuh"
#include "fmhax/contract/workspace.hpp"
#include "launch.hpp"
#include "places.cuh"

namespace fmhax::portable {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 4;                             // of one thread
constexpr int kHeadsInFlight = 4;                       // of one thread
constexpr int kMostHeads = 16;                          // of one thread
constexpr int kBlocks = arch::kWarpSize == 64 ? 3 : 4;  // that a multiprocessor has registers for

/// How a block's threads lie on its rows.
struct RowThreads {
  std::int32_t log2_count = 0;  ///< side by side on one row: a power of two, so that rows are found by shifts
  std::int32_t tile_rows = 0;   ///< of one block
  std::int32_t tile_heads = kHeadsInFlight;  ///< of one block
  bool is_aligned = false;                   ///< every row of dq begins at a multiple of 8 bytes
};

RowThreads row_threads(std::int64_t hdim) {
  RowThreads threads;
  while ((kColumns << threads.log2_count) < hdim) ++threads.log2_count;
  threads.tile_rows = kThreads >> threads.log2_count;
  return threads;
}

FMHAX_HOST_DEVICE std::int64_t head_tiles(const Problem& p, const RowThreads& threads) {
  return (p.nhead_q + threads.tile_heads - 1) / threads.tile_heads;
}

/// What becomes of a row.
enum class Kind { outside, zero, nan, sum };

/// What a thread reads of one row and head: four elements of each split.
struct Source {
  Kind kind = Kind::outside;
  std::int32_t nsplits = 0;
  std::int32_t element_stride = 0;
  std::int64_t split_stride = 0;
  const float* data = nullptr;  ///< in the first split

  __device__ void next_head() { data += nsplits * split_stride; }
};

/// A tile of consecutive rows of some heads.
struct Tile {
  std::int64_t batch = 0;  ///< of the tensors: 0 in group mode
  std::int64_t first_head = 0;
  std::int64_t first_row = 0;
  std::int64_t first_sequence = 0;  ///< of the tile's rows
  std::int64_t sequences = 1;
};

/// By all threads of a block together.
__device__ Tile tile_of(const KernelParams& params, std::int64_t tiles, const RowThreads& threads, std::int64_t job) {
  const Problem& p = params.problem;
  Tile tile;
  const std::int64_t index = job / head_tiles(p, threads);
  tile.first_head = (job - index * head_tiles(p, threads)) * threads.tile_heads;
  tile.batch = index / tiles;
  tile.first_row = (index - tile.batch * tiles) * threads.tile_rows;
  tile.first_sequence = tile.batch;
  if (p.is_group_mode && p.batch > 0) {
    const std::int32_t* starts = params.lengths.seqstart_q;
    tile.first_sequence = find_sequence_by_warp(starts, p.batch, tile.first_row);
    const std::int64_t rest = p.batch - tile.first_sequence;
    tile.sequences =
        1 + find_sequence_by_warp(starts + tile.first_sequence, rest, tile.first_row + threads.tile_rows - 1);
  }
  return tile;
}

/// In the tile's first head.
__device__ Source source_of(const KernelParams& params, const Tile& tile, std::int64_t row, int position,
                            bool is_refused) {
  const Problem& p = params.problem;
  if (row >= (p.is_group_mode ? p.total_q : p.max_seqlen_q)) return {};
  if (is_refused) return {Kind::nan};
  if (p.is_group_mode && row >= packed_rows(p, params.lengths, SequenceSide::q)) return {};
  const std::int64_t sequence =
      p.is_group_mode
          ? tile.first_sequence + find_sequence(params.lengths.seqstart_q + tile.first_sequence, tile.sequences, row)
          : tile.batch;
  const SequenceRange range = sequence_range(p, params.lengths, SequenceSide::q, sequence);
  const std::int64_t within = row - range.start;
  if (within >= range.logical) return {Kind::zero};
  const std::int32_t nsplits = params.nsplits[p.is_group_mode && p.is_deterministic ? sequence : 0];
  const std::int64_t split_stride = range.physical * p.hdim_q;
  const std::int64_t offset =
      p.is_group_mode ? params.dq_acc_offsets[sequence] : sequence * p.nhead_q * nsplits * split_stride;
  const QuadPlace place = dq_acc_quad<DqOrder>(within, position / kColumns, range.physical, static_cast<int>(p.hdim_q));
  return {Kind::sum, nsplits, place.stride, split_stride,
          static_cast<const float*>(params.dq_acc) + offset + tile.first_head * nsplits * split_stride + place.first};
}

__device__ float4 load_quad(const Source& source, const float* from) {
  if constexpr (DqOrder::kQuadsAreVectors) return arch::load_streaming(reinterpret_cast<const float4*>(from));
  const auto element = [&](int i) { return arch::load_streaming(from + i * source.element_stride); };
  return {element(0), element(1), element(2), element(3)};
}

/// The first split's part, which for most calls is all: without a loop around them, the loads of a thread's heads are
/// on their way together.
__device__ float4 first_part(const Source& source) {
  if (source.kind == Kind::nan) {
    const float nan = __int_as_float(0x7fc00000);
    return {nan, nan, nan, nan};
  }
  if (source.kind != Kind::sum || source.nsplits == 0) return {};
  return load_quad(source, source.data);
}

__device__ void add_other_parts(const Source& source, float4& sum) {
  if (source.kind != Kind::sum) return;
#pragma unroll 4
  for (std::int32_t split = 1; split < source.nsplits; ++split) {
    const float4 part = load_quad(source, source.data + split * source.split_stride);
    sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
}

/// Four consecutive columns of dq, rounded.
struct Columns {
  int first = 0;
  uint2 elements{};
};

/// Puts columns together again, where the order parts them: two of this thread's and two of its neighbour's; `own` are
/// the elements from `position` on. For all lanes of a warp together.
__device__ Columns columns_at(int position, std::int64_t hdim, uint2 own) {
  if constexpr (DqOrder::column(2, 16) == 2) return {position, own};
  static_assert(DqOrder::column(2, 16) == 2 || (DqOrder::column(4, 16) == 2 && DqOrder::column(6, 16) == 10 &&
                                                DqOrder::column(12, 16) == 6 && DqOrder::column(14, 16) == 14),
                "a thread's four positions hold columns {0, 1, 8, 9} + 2 * its number among four");
  const int group = position / 16 * 16;
  const int number = position % 16 / kColumns;
  const bool is_odd = number % 2 != 0;
  const std::uint32_t got = arch::shuffle_xor(is_odd ? own.x : own.y, 1);
  if (group + 16 > hdim) return {position, own};
  if (is_odd) return {group + 8 + 2 * (number - 1), {got, own.y}};
  return {group + 2 * number, {own.x, got}};
}

template <DataType kDtype>
__global__ __launch_bounds__(kThreads,
                             kBlocks) void convert_dq_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                                                             const FMHAX_KERNEL_PARAMETER RowThreads threads) {
  const Problem& p = params.problem;
  const std::int64_t batches = p.is_group_mode ? 1 : p.batch;
  const bool is_refused = params.nsplits[0] == kInvalidCall;
  // Rows behind the last sequence are dq_dk_dv's to clear.
  const std::int64_t packed = is_refused ? p.total_q : packed_rows(p, params.lengths, SequenceSide::q);
  const std::int64_t rows = p.is_group_mode ? packed : p.max_seqlen_q;
  const std::int64_t tiles = (rows + threads.tile_rows - 1) / threads.tile_rows;
  const std::int64_t jobs = batches * tiles * head_tiles(p, threads);
  const int position = kColumns * static_cast<int>(threadIdx.x & ((1U << threads.log2_count) - 1));

  for (std::int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const Tile tile = tile_of(params, tiles, threads, job);
    const std::int64_t row = tile.first_row + static_cast<std::int64_t>(threadIdx.x >> threads.log2_count);
    Source source = position < p.hdim_q ? source_of(params, tile, row, position, is_refused) : Source{};
    auto* to = static_cast<std::uint16_t*>(params.dq.data) + row_offset(params.dq, tile.batch, row, tile.first_head);
    const std::int64_t end = min(tile.first_head + threads.tile_heads, p.nhead_q);
    for (std::int64_t head = tile.first_head; head < end; head += kHeadsInFlight) {
      Source of_head[kHeadsInFlight];
      float4 sum[kHeadsInFlight];
#pragma unroll
      for (int u = 0; u < kHeadsInFlight; ++u) {
        if (head + u < end) of_head[u] = source;
        source.next_head();
        sum[u] = first_part(of_head[u]);
      }
#pragma unroll
      for (int u = 0; u < kHeadsInFlight; ++u) add_other_parts(of_head[u], sum[u]);
#pragma unroll
      for (int u = 0; u < kHeadsInFlight; ++u) {
        const uint2 converted{narrow<kDtype>(params.scale * sum[u].x, params.scale * sum[u].y),
                              narrow<kDtype>(params.scale * sum[u].z, params.scale * sum[u].w)};
        const Columns columns = columns_at(position, p.hdim_q, converted);
        if (of_head[u].kind != Kind::outside) {
          store_half_vector(to + columns.first, columns.elements, threads.is_aligned);
        }
        to += params.dq.stride_nhead;
      }
    }
  }
}

template <DataType kDtype>
bool form(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  RowThreads threads = row_threads(p.hdim_q);
  threads.is_aligned = has_aligned_rows(params.dq, kDtype, 8);
  const std::int64_t tiles =
      (p.is_group_mode ? 1 : p.batch) * ceil_div(p.is_group_mode ? p.total_q : p.max_seqlen_q, threads.tile_rows);
  // As many heads a block as leave every multiprocessor busy.
  const std::int64_t heads = ceil_div(tiles * p.nhead_q, kBlocks * std::max(traits.multiprocessors, 1));
  threads.tile_heads = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(ceil_div(heads, kHeadsInFlight) * kHeadsInFlight, kHeadsInFlight, kMostHeads));
  set_launch(launch, reinterpret_cast<const void*>(convert_dq_kernel<kDtype>),
             grid_size(tiles * head_tiles(p, threads), traits), kThreads, params);
  add_argument(launch, sizeof(params), threads);
  return true;
}

}  // namespace

bool form_convert_dq(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return params.problem.dtype == DataType::fp16 ? form<DataType::fp16>(traits, params, launch)
                                                : form<DataType::bf16>(traits, params, launch);
}

}  // namespace fmhax::portable
