/// @file Filling a tile list on the CPU: for the host function that packs and for the CPU's own kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "fmhax/contract/sequence.hpp"
#include "fmhax/contract/workspace.hpp"

namespace fmhax {

/// Writes tile_starts[batch + 1] and tile_sequences[batch] for lengths that passed check_lengths(). Takes no memory.
inline void fill_tile_list(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& lengths,
                           std::int32_t* tile_starts, std::int32_t* tile_sequences) noexcept {
  const auto physical = [&](SequenceSide side, std::int64_t i) {
    return sequence_range(problem, lengths, side, i).physical;
  };
  std::iota(tile_sequences, tile_sequences + problem.batch, 0);
  if (problem.batch <= kMaxSortedBatch) {
    std::sort(tile_sequences, tile_sequences + problem.batch, [&](std::int32_t a, std::int32_t b) {
      const std::int64_t rows_a = physical(SequenceSide::q, a);
      const std::int64_t rows_b = physical(SequenceSide::q, b);
      return rows_a != rows_b ? rows_a > rows_b : a < b;
    });
  }
  std::int64_t jobs = 0;
  tile_starts[0] = 0;
  for (std::int64_t place = 0; place < problem.batch; ++place) {
    jobs += sequence_jobs(spec, problem, physical(SequenceSide::k, tile_sequences[place]));
    tile_starts[place + 1] = static_cast<std::int32_t>(jobs);  // not above the last start, an int32
  }
}

}  // namespace fmhax
