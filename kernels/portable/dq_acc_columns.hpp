/// @file The order of the columns within a row of dq_acc, the one thing about it that is a provider's own.
///
/// Of each 16 columns, the four that a lane of the matrix units holds, {0, 1, 8, 9} + 2 t, lie side by side, so that
/// one instruction adds them. Eight columns left over at a row's end keep their order.
#pragma once

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

/// The column of dq that lies at `position` in a row of dq_acc.
FMHAX_HOST_DEVICE constexpr int dq_column(int position, int hdim) {
  const int group = position / 16 * 16;
  if (group + 16 > hdim) return position;
  return group + position % 16 / 4 * 2 + position % 4 / 2 * 8 + position % 2;
}

}  // namespace fmhax::portable
