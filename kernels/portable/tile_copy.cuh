/// @file Moving rows of 16-bit elements between global memory, shared memory and registers.
#pragma once

#include <cstdint>

#include "arch/mma.cuh"
#include "elements.cuh"

namespace fmhax::portable {

/// Eight elements of a row.
__device__ inline uint4 load_chunk(const std::uint16_t* from, bool is_aligned) {
  return is_aligned ? arch::load_global(reinterpret_cast<const uint4*>(from)) : load_vector<false>(from);
}

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

  /// Whether the thread has a chunk `i`.
  __device__ static bool has_chunk(int thread, int i) {
    return (i + 1) * kRowStep <= kRows || arch::computed_here(row(thread)) + i * kRowStep < kRows;
  }

  /// A thread's first chunk of a tensor whose tile begins at `tile`.
  __device__ static const std::uint16_t* source(int thread, const std::uint16_t* tile, std::int64_t stride) {
    return tile + row(thread) * stride + column(thread);
  }

  /// What of a copy passes through a thread's registers.
  struct Held {
    uint4 chunk[kCopies];
  };

  /// Begins a copy of rows [0, rows) and columns [0, hdim) of the tile, zeros elsewhere; end() ends it, and
  /// wait_for_copies() waits for what goes on behind the threads' backs. hdim is a multiple of 8.
  __device__ static void begin(int thread, std::uint16_t* shared, const std::uint16_t* source, std::int64_t stride,
                               int rows, int hdim, bool is_aligned, Held& held) {
    if (kUsed < kThreads && arch::computed_here(thread) >= kUsed) return;
    std::uint16_t* to = shared + row(thread) * kPitch + column(thread);
    const int valid_rows = arch::computed_here(column(thread)) < hdim ? rows - row(thread) : 0;
    const std::int64_t step = kRowStep * stride;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (!has_chunk(thread, i)) continue;
      std::uint16_t* chunk = to + i * kRowStep * kPitch;
      const bool is_valid = i * kRowStep < valid_rows;
      const std::uint16_t* from = source + i * step;
      if (is_aligned) {
        begin_copy16(chunk, from, is_valid, held.chunk[i]);
      } else {
        begin_store16(chunk, is_valid ? load_chunk(from, false) : make_uint4(0, 0, 0, 0), held.chunk[i]);
      }
    }
  }
  __device__ static void end(int thread, std::uint16_t* shared, const Held& held) {
    if (kUsed < kThreads && arch::computed_here(thread) >= kUsed) return;
    std::uint16_t* to = shared + row(thread) * kPitch + column(thread);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (!has_chunk(thread, i)) continue;
      end_copy16(to + i * kRowStep * kPitch, held.chunk[i]);
    }
  }
  /// Both at once.
  __device__ static void run(int thread, std::uint16_t* shared, const std::uint16_t* source, std::int64_t stride,
                             int rows, int hdim, bool is_aligned) {
    Held held;
    begin(thread, shared, source, stride, rows, hdim, is_aligned, held);
    end(thread, shared, held);
  }
};

/// Four elements of a row.
__device__ inline void store_packed(std::uint16_t* to, const uint2& four, bool is_aligned) {
  if (is_aligned) {
    arch::store_global(reinterpret_cast<uint2*>(to), four);
  } else {
    store_half_vector(to, four, false);
  }
}

}  // namespace fmhax::portable
