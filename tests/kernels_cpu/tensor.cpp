#include "tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace fmhax::cpu::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSpareElements = 8;  // between heads

}  // namespace

double plain_widen(DataType dtype, std::uint16_t bits) {
  if (dtype == DataType::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? kNan : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

std::uint16_t plain_narrow(DataType dtype, double value) {
  const int fraction_bits = dtype == DataType::bf16 ? 7 : 10;
  const int bias = dtype == DataType::bf16 ? 127 : 15;
  const int top = 2 * bias + 1;  // exponent of inf and NaN
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | top << fraction_bits | 1 << (fraction_bits - 1));
  const double magnitude = std::abs(value);
  if (magnitude == 0.0) return sign;
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | top << fraction_bits);
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // nearbyint rounds to nearest even; a carry out of the fraction moves into the exponent by itself.
  const auto units = static_cast<std::int64_t>(std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
  const std::int64_t hidden = std::int64_t{1} << fraction_bits;
  const std::int64_t bits =
      units < hidden ? units : (static_cast<std::int64_t>(exponent + bias) << fraction_bits) + units - hidden;
  return static_cast<std::uint16_t>(sign |
                                    std::min<std::int64_t>(bits, static_cast<std::int64_t>(top) << fraction_bits));
}

Tensor::Tensor(DataType dtype, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t hdim)
    : dtype_(dtype) {
  stride_nhead_ = hdim + kSpareElements;
  stride_seqlen_ = stride_nhead_ * heads + kSpareElements;
  stride_batch_ = stride_seqlen_ * rows + kSpareElements;
  bytes_.resize(static_cast<std::size_t>((stride_batch_ * batch + 1) * element_size(dtype)));
}

std::size_t Tensor::offset(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d) const {
  return static_cast<std::size_t>((batch * stride_batch_ + row * stride_seqlen_ + head * stride_nhead_ + d) *
                                  element_size(dtype_));
}

void Tensor::set(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d, double value) {
  if (dtype_ == DataType::fp32) {
    const auto single = static_cast<float>(value);
    std::memcpy(&bytes_[offset(batch, row, head, d)], &single, sizeof(single));
  } else {
    const std::uint16_t bits = plain_narrow(dtype_, value);
    std::memcpy(&bytes_[offset(batch, row, head, d)], &bits, sizeof(bits));
  }
}

double Tensor::get(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t d) const {
  if (dtype_ == DataType::fp32) {
    float single = 0.0F;
    std::memcpy(&single, &bytes_[offset(batch, row, head, d)], sizeof(single));
    return single;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, &bytes_[offset(batch, row, head, d)], sizeof(bits));
  return plain_widen(dtype_, bits);
}

void Tensor::fill(double value) {
  const std::size_t size = static_cast<std::size_t>(element_size(dtype_));
  Tensor one = *this;
  one.bytes_.resize(size);
  one.set(0, 0, 0, 0, value);
  for (std::size_t i = 0; i + size <= bytes_.size(); i += size) std::memcpy(&bytes_[i], one.bytes_.data(), size);
}

void Tensor::expand(double value) {
  stride_batch_ = stride_seqlen_ = stride_nhead_ = 0;
  fill(value);
}

}  // namespace fmhax::cpu::test
