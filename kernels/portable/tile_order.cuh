/// @file The order of a tile list: sequences by falling seqlen_q, equal ones by index.
#pragma once

#include "arch/arch.cuh"
#include "fmhax/contract/workspace.hpp"

namespace fmhax::portable {

inline constexpr int kTileOrderThreads = 1024;
static_assert(kTileOrderThreads >= kMaxSortedBatch, "one thread a sequence");

struct TileOrderMemory {
  std::uint64_t keys[kTileOrderThreads];
};

/// The sequence at this thread's place, for a block of kTileOrderThreads threads and batch <= kMaxSortedBatch; beyond
/// the batch something to be ignored. Sorts in a bitonic network: within a warp by shuffles, else through memory.
template <typename SeqlenQ>
__device__ std::int32_t sequence_at_place(std::int32_t batch, TileOrderMemory& memory, const SeqlenQ& seqlen_q) {
  const auto place = static_cast<std::int32_t>(threadIdx.x);
  // Rising keys are falling lengths, then rising indices; places beyond the batch come last.
  std::uint64_t key = ~std::uint64_t{0};
  if (place < batch) {
    const auto length = static_cast<std::uint32_t>(seqlen_q(place));
    key = static_cast<std::uint64_t>(~length) << 32U | static_cast<std::uint32_t>(place);
  }
  for (std::int32_t run = 2; run < 2 * batch; run *= 2) {
    for (std::int32_t distance = run / 2; distance > 0; distance /= 2) {
      std::uint64_t other = 0;
      if (distance < arch::kWarpSize) {
        other = arch::shuffle_xor(key, distance);
      } else {
        __syncthreads();
        memory.keys[place] = key;
        __syncthreads();
        other = memory.keys[place ^ distance];
      }
      const bool is_lower = (place & distance) == 0;
      const bool is_rising = (place & run) == 0;
      if (is_lower == is_rising ? other < key : key < other) key = other;
    }
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(key));
}

}  // namespace fmhax::portable
