/// @file Conversions between double and the element types, written from the formats' definitions and
/// sharing nothing with the kernels' own.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"

namespace fmhax::verification {

/// Bits of the nearest value, ties to even; beyond the largest finite value infinity; NaN stays NaN.
std::uint16_t to_fp16_bits(double value);
std::uint16_t to_bf16_bits(double value);

/// Exact.
double from_fp16_bits(std::uint16_t bits);
double from_bf16_bits(std::uint16_t bits);

/// The value of `dtype` nearest to `value`.
double round_to(DataType dtype, double value);

/// Writes element `index` of an array of `dtype`, rounding; reads it, exactly.
void store_element(DataType dtype, void* array, std::int64_t index, double value);
double load_element(DataType dtype, const void* array, std::int64_t index);

}  // namespace fmhax::verification
