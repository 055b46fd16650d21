#include "verification/half.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace fmhax::verification {
namespace {

/// What tells one 16-bit binary format from another.
struct Format {
  int mantissa_bits;
  int min_exponent;  ///< of the smallest normal number
  int max_exponent;  ///< of the largest finite number
};

constexpr Format kFp16{10, -14, 15};
constexpr Format kBf16{7, -126, 127};

std::uint16_t encode(const Format& format, double value) {
  const auto sign = static_cast<unsigned>(std::signbit(value) ? 0x8000U : 0U);
  const unsigned infinity = static_cast<unsigned>(format.max_exponent - format.min_exponent + 2)
                            << static_cast<unsigned>(format.mantissa_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1U << (format.mantissa_bits - 1)));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return static_cast<std::uint16_t>(sign);

  // The spacing of the format around the value; below the normal numbers it stays the same.
  const int exponent = std::max(std::ilogb(magnitude), format.min_exponent);
  // nearbyint rounds ties to even in the default rounding mode, and the scaling is by a power of two.
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A carry out of the mantissa raises the exponent by itself, because the fields are adjacent.
  const std::int64_t bits = (static_cast<std::int64_t>(exponent - format.min_exponent) << format.mantissa_bits) +
                            static_cast<std::int64_t>(steps);
  if (bits >= static_cast<std::int64_t>(infinity)) return static_cast<std::uint16_t>(sign | infinity);
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(bits));
}

double decode(const Format& format, std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int fields = bits & 0x7FFF;
  const int exponent = fields >> format.mantissa_bits;
  const int mantissa = fields & ((1 << format.mantissa_bits) - 1);
  if (exponent == format.max_exponent - format.min_exponent + 2) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, format.min_exponent - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - 1 + format.min_exponent - format.mantissa_bits);
}

}  // namespace

std::uint16_t to_fp16_bits(double value) { return encode(kFp16, value); }
std::uint16_t to_bf16_bits(double value) { return encode(kBf16, value); }
double from_fp16_bits(std::uint16_t bits) { return decode(kFp16, bits); }
double from_bf16_bits(std::uint16_t bits) { return decode(kBf16, bits); }

double round_to(DataType dtype, double value) {
  switch (dtype) {
    case DataType::fp16:
      return from_fp16_bits(to_fp16_bits(value));
    case DataType::bf16:
      return from_bf16_bits(to_bf16_bits(value));
    case DataType::uint8:
      return std::nearbyint(value);
    case DataType::fp32:
      break;
  }
  return static_cast<double>(static_cast<float>(value));
}

void store_element(DataType dtype, void* array, std::int64_t index, double value) {
  auto* bytes = static_cast<unsigned char*>(array) + index * element_size(dtype);
  if (dtype == DataType::fp32) {
    const auto element = static_cast<float>(value);
    std::memcpy(bytes, &element, sizeof(element));
  } else if (dtype == DataType::uint8) {
    *bytes = static_cast<unsigned char>(value);
  } else {
    const std::uint16_t element = dtype == DataType::fp16 ? to_fp16_bits(value) : to_bf16_bits(value);
    std::memcpy(bytes, &element, sizeof(element));
  }
}

double load_element(DataType dtype, const void* array, std::int64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(array) + index * element_size(dtype);
  if (dtype == DataType::fp32) {
    float element = 0;
    std::memcpy(&element, bytes, sizeof(element));
    return static_cast<double>(element);
  }
  if (dtype == DataType::uint8) return *bytes;
  std::uint16_t element = 0;
  std::memcpy(&element, bytes, sizeof(element));
  return dtype == DataType::fp16 ? from_fp16_bits(element) : from_bf16_bits(element);
}

}  // namespace fmhax::verification
