/// @file Moving rows of 16-bit elements between global memory, shared memory and registers.
#pragma once

#include <cstdint>

#include "elements.cuh"
#include "mma.cuh"

namespace fmhax::portable {

/// How the threads of a block share the 16-byte chunks of a kRows x kHdim tile of 16-bit elements: chunk i of a thread
/// lies kRowStep * i rows below its first one, in the same columns.
template <int kRows, int kHdim, int kPitch, int kThreads>
struct TileCopy {
  static constexpr int kChunks = kHdim / 8;
  static constexpr int kUsed = kThreads / kChunks * kChunks;  ///< threads that take part
  static constexpr int kRowStep = kUsed / kChunks;
  static constexpr int kCopies = (kRows + kRowStep - 1) / kRowStep;

  __device__ static int row(int thread) { return thread / kChunks; }
  __device__ static int column(int thread) { return thread % kChunks * 8; }

  /// A thread's first chunk of a tensor whose tile begins at `tile`.
  __device__ static const std::uint16_t* source(int thread, const std::uint16_t* tile, std::int64_t stride) {
    return tile + row(thread) * stride + column(thread);
  }

  /// Rows [0, rows) and columns [0, hdim) of the tile, zeros elsewhere; behind the threads' backs where every row
  /// begins at a multiple of 16 bytes. hdim is a multiple of 8.
  __device__ static void run(int thread, std::uint16_t* shared, const std::uint16_t* source, std::int64_t stride,
                             int rows, int hdim, bool is_aligned) {
    if (kUsed < kThreads && thread >= kUsed) return;
    std::uint16_t* to = shared + row(thread) * kPitch + column(thread);
    const int valid_rows = column(thread) < hdim ? rows - row(thread) : 0;
    const std::int64_t step = kRowStep * stride;
    if (is_aligned) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        if (kRows % kRowStep != 0 && row(thread) + i * kRowStep >= kRows) break;
        copy16_async(to + i * kRowStep * kPitch, source, i * kRowStep < valid_rows);
        source += step;
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i) {
      if (row(thread) + i * kRowStep >= kRows) break;
      for (int e = 0; e < 8; ++e) {
        to[i * kRowStep * kPitch + e] = i * kRowStep < valid_rows ? source[e] : std::uint16_t{0};
      }
      source += step;
    }
  }
};

/// Eight elements of a row.
__device__ inline uint4 load_chunk(const std::uint16_t* from, bool is_aligned) {
  return is_aligned ? *reinterpret_cast<const uint4*>(from) : load_vector<false>(from);
}

/// Four elements of a row.
__device__ inline void store_packed(std::uint16_t* to, const uint2& four, bool is_aligned) {
  if (is_aligned) {
    *reinterpret_cast<uint2*>(to) = four;
  } else {
    store_half_vector(to, four, false);
  }
}

}  // namespace fmhax::portable
