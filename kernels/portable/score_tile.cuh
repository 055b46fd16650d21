/// @file Products of a warp's sixteen rows with a tile of keys, and what of the tile a row sees: what forward and dbias
/// have in common.
#pragma once

#include "arch/layouts.hpp"
#include "arch/mma.cuh"
#include "elements.cuh"
#include "features.cuh"

namespace fmhax::portable {

inline constexpr int kTileRows = 64;  ///< of queries: sixteen a warp
inline constexpr int kTileThreads = kTileRows / 16 * kLanes;
/// The same on a device, for the host.
inline std::uint32_t tile_threads(const DeviceTraits& traits) {
  return static_cast<std::uint32_t>(kTileRows / 16 * warp_size(tile_set(traits)));
}
inline constexpr float kLog2E = 1.4426950408889634F;

/// Accumulators of sixteen rows and 16 * kTiles keys.
template <int kTiles>
struct ScoreTile {
  Accumulator tile[kTiles];

  /// += rows * keys^T; both with `kHdim` columns and kHdim + 8 elements from row to row in shared memory.
  template <DataType kDtype, int kHdim>
  __device__ void multiply(const std::uint16_t* rows, const std::uint16_t* keys) {
    constexpr int kPitch = kHdim + kVector;
#pragma unroll
    for (int column = 0; column < kHdim; column += 16) {
      const Operand left = load_left(rows + column + left_offset(kPitch));
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const std::uint16_t* at = keys + t * 16 * kPitch + column + right_transposed_offset(kPitch);
        fmhax::portable::multiply<kDtype>(tile[t], left, load_right_transposed(at));
      }
    }
  }
};

/// Keys that each of a lane's rows sees.
struct VisibleKeys {
  std::int32_t begin[Accumulator::kRows];
  std::int32_t end[Accumulator::kRows];

  /// For the sixteen rows from `first_row` on.
  __device__ VisibleKeys(const Mask& mask, const SequenceRange& q, const SequenceRange& k, std::int64_t first_row) {
#pragma unroll
    for (int r = 0; r < Accumulator::kRows; ++r) {
      const IndexRange keys = visible_keys(mask, q.logical, k.logical, first_row + Accumulator::row(r));
      begin[r] = static_cast<std::int32_t>(keys.begin);
      end[r] = static_cast<std::int32_t>(keys.end);
    }
  }
  __device__ bool contains(int r, std::int32_t key) const { return begin[r] <= key && key < end[r]; }
};

/// What dropout multiplies kTiles accumulators of sixteen query rows and sixteen keys by, for all lanes of a warp
/// together: each runs the generator for one row of a tile and hands out its bytes. `place(t)` is tile t's first query
/// row and first key, the latter a multiple of 16. With kKeysAreRows the accumulators are transposed.
template <bool kKeysAreRows, int kTiles, typename Place>
__device__ void dropout_factors(const DropoutFeatures& dropout, const Place& place,
                                float (&factors)[kTiles][Accumulator::kRows * Accumulator::kColumns]) {
  constexpr int kTogether = kLanes / 16;
  constexpr int kQueries = kKeysAreRows ? Accumulator::kColumns : Accumulator::kRows;
  constexpr int kKeys = kKeysAreRows ? Accumulator::kRows : Accumulator::kColumns;
#pragma unroll
  for (int first = 0; first < kTiles; first += kTogether) {
    const int own = first + lane_id() / 16;
    const int2 corner = place(own < kTiles ? own : kTiles - 1);
    const PhiloxWords drawn = dropout.bytes(corner.x + lane_id() % 16, corner.y / static_cast<int>(kDropoutKeys));
#pragma unroll
    for (int t = first; t < first + kTogether && t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        const int source = (t - first) * 16 + (kKeysAreRows ? Accumulator::column(i) : Accumulator::row(i));
        PhiloxWords words{};
#pragma unroll
        for (int w = 0; w < 4; ++w) words.word[w] = arch::shuffle(drawn.word[w], source);
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
          const int key = kKeysAreRows ? Accumulator::row(j) : Accumulator::column(j);
          const std::uint32_t low = (key & 4) != 0 ? words.word[1] : words.word[0];
          const std::uint32_t high = (key & 4) != 0 ? words.word[3] : words.word[2];
          const std::uint32_t byte = (((key & 8) != 0 ? high : low) >> (key % 4 * 8)) & 0xFFU;
          factors[t][kKeysAreRows ? Accumulator::element(j, i) : Accumulator::element(i, j)] = dropout.factor(byte);
        }
      }
    }
  }
}

}  // namespace fmhax::portable
