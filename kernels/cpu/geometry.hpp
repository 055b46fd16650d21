/// @file Which tile a block works on, and what of it is visible: index arithmetic on top of the contract's.
#pragma once

#include <cstdint>

#include "fmhax/contract/sequence.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// One tile of one sequence; none when a slot is not in use.
struct TileSlot {
  std::int64_t sequence = 0;
  std::int64_t tile = 0;
};

/// The tiles of all sequences are numbered by slots 0 … slot_count - 1, a few of which are not in use. In group mode
/// sequence i has the slots from floor(start_i / tile_rows) + i up to the next sequence's first, which is at
/// least as many as it has tiles, so that the count depends on the capacity alone and stays near the number of
/// tiles in use. In batch mode all first tiles come first: with a causal mask they are the longest work.
std::int64_t slot_count(const Problem& problem, SequenceSide side, std::int64_t tile_rows) noexcept;

/// What slot is in use for, by binary search. Whatever the lengths hold, sequence is in [0, batch) and tile is
/// not negative; the tile may lie beyond the end of the sequence.
TileSlot find_slot(const Problem& problem, const SequenceLengths& lengths, SequenceSide side, std::int64_t tile_rows,
                   std::int64_t slot) noexcept;

/// Rows [tile * tile_rows, (tile + 1) * tile_rows) of a sequence, cut into real tokens and padding.
struct TileRows {
  IndexRange real;
  IndexRange padding;
};
TileRows tile_rows_of(const SequenceRange& range, std::int64_t tile, std::int64_t tile_rows) noexcept;

/// Where the query rows [rows.begin, rows.end) and the keys of a tile meet, in the tile's own numbering.
/// Rows and keys are counted within their sequence, by logical lengths; neither range is empty.
TileVisibility tile_visibility(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k, IndexRange rows,
                               IndexRange keys) noexcept;

/// The mask with windows cut to what any sequence can need, so that sums with them can't overflow.
Mask bounded_mask(const Mask& mask) noexcept;

}  // namespace fmhax::cpu
