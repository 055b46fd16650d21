/// @file Rows of tensors: addresses, and rows that are filled with zero or NaN.
#pragma once

#include <cstdint>

#include "fmhax/contract/sequence.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu {

/// Where a block stands among those of its launch.
struct Block {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// Rows from (sequence, row, head) on. In batch mode `row` counts within the sequence; in group mode it counts
/// through the whole tensor and the sequence does not matter.
InputRows input_rows(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                     std::int64_t head) noexcept;
OutputRows output_rows(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                       std::int64_t head) noexcept;
/// The same for lse and d.
float* row_value(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                 std::int64_t head) noexcept;

/// d of `count` rows of one head: rowsum(dout * o), minus dlse.
void dot_do_o_rows(const KernelParams& params, const TileOps& ops, std::int64_t sequence, std::int64_t row,
                   std::int64_t head, std::int64_t count, float* d, std::int64_t d_stride) noexcept;

enum class Fill { zero, nan };

/// Fills all of `heads` heads, hdim elements each, of rows [rows.begin, rows.end) as input_rows() counts them.
void fill(Fill value, const TensorRef& tensor, const Problem& problem, std::int64_t sequence, IndexRange rows,
          IndexRange heads, std::int64_t hdim) noexcept;

/// This block's share of rows [rows.begin, rows.end) of the whole tensor, all sequences counted through.
void fill_share(Fill value, const TensorRef& tensor, const Problem& problem, SequenceSide side, IndexRange rows,
                std::int64_t heads, std::int64_t hdim, Block block) noexcept;

}  // namespace fmhax::cpu
