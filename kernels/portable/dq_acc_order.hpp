/// @file The order of the elements within one head and split of dq_acc, the one thing about it that is a provider's
/// own.
///
/// Rows lie in groups of eight, of which each 16 columns lie together, row after row: what a warp of the matrix units
/// adds at once is one piece of memory. The last group of a sequence has the rows that are left.
///
/// Of each 16 columns, the four that a lane holds, {0, 1, 8, 9} + 2 t, lie side by side, so that one instruction adds
/// them. Eight columns left over at a row's end keep their order.
#pragma once

#include <cstdint>

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

inline constexpr int kDqGroupRows = 8;

/// Where the element at `position` in row `row` of `rows` lies; hdim and position are below 2^31.
FMHAX_HOST_DEVICE constexpr std::int64_t dq_acc_element(std::int64_t row, int position, std::int64_t rows, int hdim) {
  const std::int64_t group = row / kDqGroupRows * kDqGroupRows;
  const int height = rows - group < kDqGroupRows ? static_cast<int>(rows - group) : kDqGroupRows;
  const int tile = position / 16 * 16;
  const int width = tile + 16 <= hdim ? 16 : hdim - tile;
  return group * hdim + tile * height + static_cast<int>(row - group) * width + position - tile;
}

/// The column of dq that lies at `position` in a row of dq_acc.
FMHAX_HOST_DEVICE constexpr int dq_column(int position, int hdim) {
  const int tile = position / 16 * 16;
  if (tile + 16 > hdim) return position;
  return tile + position % 16 / 4 * 2 + position % 4 / 2 * 8 + position % 2;
}

}  // namespace fmhax::portable
