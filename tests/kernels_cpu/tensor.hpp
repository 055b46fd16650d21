/// @file Tensors of 16- and 32-bit elements, converted plainly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmhax/contract/params.hpp"

namespace fmhax::cpu::test {

/// A tensor in the problem's type, with room between its rows and heads.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DataType dtype, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t hdim);

  TensorRef ref() { return {bytes_.data(), stride_batch_, stride_seqlen_, stride_nhead_}; }
  void fill(double value);
  void set(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d, double value);
  double get(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d) const;
  /// The same value for every element, through strides of 0.
  void expand(double value);

 private:
  std::size_t offset(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d) const;

  DataType dtype_ = DataType::fp32;
  std::int64_t stride_batch_ = 0, stride_seqlen_ = 0, stride_nhead_ = 0;
  std::vector<std::byte> bytes_;
};

/// Value of 16 bits as a double, and the nearest 16 bits of a double, both written plainly.
double plain_widen(DataType dtype, std::uint16_t bits);
std::uint16_t plain_narrow(DataType dtype, double value);

}  // namespace fmhax::cpu::test
