/// @file A plain host tensor of doubles, the form in which everything is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fmhax::verification {

/// Contiguous [batch, seqlen, nhead, hdim]. In group mode batch is 1 and seqlen counts the packed rows.
/// Doubles hold every fp32, fp16 and bf16 value exactly, so nothing is lost on the way in or out.
struct DenseTensor {
  std::int64_t batch = 0;
  std::int64_t seqlen = 0;
  std::int64_t nhead = 0;
  std::int64_t hdim = 0;
  std::vector<double> data;

  DenseTensor() = default;
  DenseTensor(std::int64_t batch_count, std::int64_t rows, std::int64_t heads, std::int64_t columns, double value = 0.0)
      : batch(batch_count),
        seqlen(rows),
        nhead(heads),
        hdim(columns),
        data(static_cast<std::size_t>(batch_count * rows * heads * columns), value) {}

  /// The hdim values of one row.
  double* row(std::int64_t b, std::int64_t s, std::int64_t h) { return data.data() + row_offset(b, s, h); }
  const double* row(std::int64_t b, std::int64_t s, std::int64_t h) const { return data.data() + row_offset(b, s, h); }

 private:
  std::ptrdiff_t row_offset(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::ptrdiff_t>(((b * seqlen + s) * nhead + h) * hdim);
  }
};

}  // namespace fmhax::verification
