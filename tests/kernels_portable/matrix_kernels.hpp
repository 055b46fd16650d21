/// @file Products of small matrices through the trait of arch/mma.cuh, one for each way of loading operands.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"

namespace fmhax::portable::test {

inline constexpr int kProductRows = 16;
inline constexpr int kProductColumns = 64;
inline constexpr int kProductDepth = 32;
/// Elements from one row of an operand to the next, also in global memory.
inline constexpr int kOperandPitch = 72;
inline constexpr int kLeftElements = kProductDepth * kOperandPitch;
inline constexpr int kRightElements = kProductColumns * kOperandPitch;

/// How an operand lies in memory: by_rows as the product names its rows and columns, transposed, or transposed as
/// load_left_deep and load_right_deep want it; grouped as ColumnGroup does.
enum class LeftWay : std::int32_t { by_rows, transposed, deep };
enum class RightWay : std::int32_t { by_rows, transposed, grouped, deep };

/// Each result is written where it belongs by another part of the trait.
struct ProductArguments {
  const std::uint16_t* left;   ///< [kLeftElements]
  const std::uint16_t* right;  ///< [kRightElements]
  float* sums;                 ///< [kProductRows, kProductColumns], by Accumulator::row and column
  std::uint16_t* quads;        ///< the same, rounded, by packed_quad
  std::uint16_t* stored;       ///< its first 16 columns by store_operand, as kKeysAlongRows says
  float* next;                 ///< the product of these columns and the first 16 rows of `right`, which is by_rows
  std::int32_t lane_error;     ///< added to the lane that loads the left operand: not 0 is a wrong mapping
};

/// The kernel for these, of one warp.
const void* product_kernel(DataType dtype, LeftWay left, RightWay right);
bool keys_along_rows();
/// Of RightWay::grouped: the first tile has every column_group()-th column.
int column_group();

}  // namespace fmhax::portable::test
