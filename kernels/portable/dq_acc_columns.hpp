/// @file The order of the columns within a row of dq_acc, the one thing about it that the contract leaves to a
/// provider.
#pragma once

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

/// Where column c of dq lies in its row of dq_acc. In each 16 columns, the four that a lane of the matrix units holds
/// ({0, 1, 8, 9} + 2 t) lie side by side, so that they are added with one instruction; eight columns left over at the
/// end of a row keep their order, which dq_acc_column() does not cover.
FMHAX_HOST_DEVICE constexpr int dq_acc_column(int c) { return c / 16 * 16 + c % 8 / 2 * 4 + c % 16 / 8 * 2 + c % 2; }

}  // namespace fmhax::portable
