/// @file Rows of a matrix as Eigen sees them.
#pragma once

#include <hiphost/kernel.hpp>

#include <algorithm>
#include <cstdint>

#define EIGEN_DONT_PARALLELIZE  // a kernel's blocks are the parallelism
#include <Eigen/Core>

namespace fmhax::train {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;
using ConstMatrixMap = Eigen::Map<const Matrix>;
using RowMap = Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic>>;
using ConstRowMap = Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>>;

/// The part of [0, size) that belongs to one block.
struct Tile {
  std::int64_t begin, count;
  Tile(std::uint32_t block, std::int64_t size, std::int64_t tile)
      : begin(static_cast<std::int64_t>(block) * tile), count(std::min(tile, size - begin)) {}
  std::int64_t end() const { return begin + count; }
};

}  // namespace fmhax::train
