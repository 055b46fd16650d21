#include "rows.hpp"

#include <algorithm>
#include <cstring>

namespace fmhax::cpu {
namespace {

std::int64_t element_offset(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                            std::int64_t head) {
  const std::int64_t batch = problem.is_group_mode ? 0 : sequence;
  return batch * tensor.stride_batch + row * tensor.stride_seqlen + head * tensor.stride_nhead;
}

void fill_row(Fill value, DataType dtype, void* row, std::int64_t hdim) {
  if (value == Fill::zero) {
    std::memset(row, 0, static_cast<std::size_t>(hdim * element_size(dtype)));
  } else if (dtype == DataType::fp32) {
    std::fill_n(static_cast<std::uint32_t*>(row), hdim, 0x7fc00000U);
  } else {
    const std::uint16_t nan = dtype == DataType::fp16 ? 0x7e00U : 0x7fc0U;
    std::fill_n(static_cast<std::uint16_t*>(row), hdim, nan);
  }
}

}  // namespace

InputRows input_rows(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                     std::int64_t head) noexcept {
  const std::int64_t offset = element_offset(tensor, problem, sequence, row, head) * element_size(problem.dtype);
  return {static_cast<const std::byte*>(tensor.data) + offset, tensor.stride_seqlen};
}

OutputRows output_rows(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                       std::int64_t head) noexcept {
  const std::int64_t offset = element_offset(tensor, problem, sequence, row, head) * element_size(problem.dtype);
  return {static_cast<std::byte*>(tensor.data) + offset, tensor.stride_seqlen};
}

float* row_value(const TensorRef& tensor, const Problem& problem, std::int64_t sequence, std::int64_t row,
                 std::int64_t head) noexcept {
  return static_cast<float*>(tensor.data) + element_offset(tensor, problem, sequence, row, head);
}

void dot_do_o_rows(const KernelParams& params, const TileOps& ops, std::int64_t sequence, std::int64_t row,
                   std::int64_t head, std::int64_t count, float* d, std::int64_t d_stride) noexcept {
  const Problem& p = params.problem;
  ops.dot_rows(input_rows(params.dout, p, sequence, row, head), input_rows(params.o, p, sequence, row, head), count,
               p.hdim_v, d, d_stride);
  if (!p.has_dlse) return;
  const float* dlse = row_value(params.dlse, p, sequence, row, head);
  for (std::int64_t r = 0; r < count; ++r) d[r * d_stride] -= dlse[r * params.dlse.stride_seqlen];
}

void fill(Fill value, const TensorRef& tensor, const Problem& problem, std::int64_t sequence, IndexRange rows,
          IndexRange heads, std::int64_t hdim) noexcept {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      fill_row(value, problem.dtype, output_rows(tensor, problem, sequence, row, head).data, hdim);
    }
  }
}

void fill_share(Fill value, const TensorRef& tensor, const Problem& problem, SequenceSide side, IndexRange rows,
                std::int64_t heads, std::int64_t hdim, Block block) noexcept {
  const std::int64_t seqlen = side == SequenceSide::q ? problem.max_seqlen_q : problem.max_seqlen_k;
  for (std::int64_t row = rows.begin + block.index; row < rows.end; row += block.count) {
    const std::int64_t sequence = problem.is_group_mode ? 0 : row / seqlen;
    const std::int64_t within = problem.is_group_mode ? row : row % seqlen;
    fill(value, tensor, problem, sequence, {within, within + 1}, {0, heads}, hdim);
  }
}

}  // namespace fmhax::cpu
