/// @file The order of the elements within one head and split of dq_acc, the one thing about it that is a provider's
/// own.
///
/// Rows lie in groups, of which each 16 columns lie together: what a warp of the matrix units adds at once is one piece
/// of memory. The last group of a sequence has the rows that are left, and eight columns left over at a row's end are a
/// tile of eight columns. Of each row of a tile, the four elements that a lane holds are a quad.
#pragma once

#include <cstdint>

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

/// Where a quad of a row lies: its first element, and the way to the next.
struct QuadPlace {
  std::int64_t first;
  int stride;
};

/// Quads are {0, 1, 8, 9} + 2 t of a tile's columns, and lie row after row, so that one instruction adds a quad. Tiles
/// of eight columns are in order.
struct QuadsByRows {
  static constexpr int kGroupRows = 8;
  static constexpr bool kQuadsAreVectors = true;

  static FMHAX_HOST_DEVICE constexpr int stride(int, int) { return 1; }
  static FMHAX_HOST_DEVICE constexpr int in_tile(int row, int quad, int, int width) { return row * width + quad * 4; }
  /// Of element `i` of the row's quads, counted through them all.
  static FMHAX_HOST_DEVICE constexpr int column(int i, int hdim) {
    const int tile = i / 16 * 16;
    if (tile + 16 > hdim) return i;
    return tile + i % 16 / 4 * 2 + i % 4 / 2 * 8 + i % 2;
  }
};

/// Quads are four neighbouring columns, and their first, second, ... elements lie together, quad after quad and of each
/// all rows: an instruction that adds one element a lane adds one piece of memory.
struct QuadsByElements {
  static constexpr int kGroupRows = 16;
  static constexpr bool kQuadsAreVectors = false;

  static FMHAX_HOST_DEVICE constexpr int stride(int height, int width) { return height * (width / 4); }
  static FMHAX_HOST_DEVICE constexpr int in_tile(int row, int quad, int height, int) { return quad * height + row; }
  static FMHAX_HOST_DEVICE constexpr int column(int i, int) { return i; }
};

/// Quad `quad` of row `row` of `rows`; hdim is below 2^31.
template <class Order>
FMHAX_HOST_DEVICE constexpr QuadPlace dq_acc_quad(std::int64_t row, int quad, std::int64_t rows, int hdim) {
  const std::int64_t group = row / Order::kGroupRows * Order::kGroupRows;
  const int height = rows - group < Order::kGroupRows ? static_cast<int>(rows - group) : Order::kGroupRows;
  const int tile = quad / 4 * 16;
  const int width = tile + 16 <= hdim ? 16 : hdim - tile;
  return {group * hdim + tile * height + Order::in_tile(static_cast<int>(row - group), quad % 4, height, width),
          Order::stride(height, width)};
}

}  // namespace fmhax::portable
