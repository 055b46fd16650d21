/// @file dout * o of the rows of a query tile, each by a few threads of a block.
#pragma once

#include "tile_copy.cuh"

namespace fmhax::portable {

/// Several threads take a row; loading and summing are apart, so that other work fits between.
template <DataType kType, int kM, int kThreads, int kHdim>
struct RowDots {
  static constexpr int kLanesPerRow = kThreads / kM < 8 ? kThreads / kM : 8;
  static constexpr int kChunks = (kHdim / 8 + kLanesPerRow - 1) / kLanesPerRow;

  struct Parts {
    uint4 dout[kChunks], o[kChunks];
    float dlse = 0;
  };

  __device__ static int row(int thread) { return thread / kLanesPerRow; }
  __device__ static bool is_first(int thread) { return thread % kLanesPerRow == 0; }

  /// This thread's part of its row of `hdim` elements; nothing is read where there is no row.
  __device__ static void load(int thread, bool is_row, const std::uint16_t* dout, const std::uint16_t* o, int hdim,
                              bool is_aligned, Parts& parts) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int column = (thread % kLanesPerRow + i * kLanesPerRow) * 8;
      parts.dout[i] = parts.o[i] = make_uint4(0, 0, 0, 0);
      if (is_row && column < hdim) {
        parts.dout[i] = load_chunk(dout + column, is_aligned);
        parts.o[i] = load_chunk(o + column, is_aligned);
      }
    }
  }

  /// For all lanes of a warp together: each gets its row's.
  __device__ static float sum(const Parts& parts) {
    static_assert(kThreads % kLanesPerRow == 0 && kThreads / kLanesPerRow >= kM);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) sum += dot<kType>(parts.dout[i], parts.o[i]);
    for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) sum += arch::shuffle_xor(sum, offset);
    return sum;
  }
};

}  // namespace fmhax::portable
