/// @file 64-bit arithmetic that remembers an overflow instead of wrapping.
#pragma once

#include <cstdint>

namespace fmhax::detail {

/// A non-negative size under computation. Once an operation overflows, the result stays overflowed.
struct Checked {
  std::int64_t value = 0;
  bool overflow = false;

  constexpr Checked(std::int64_t initial) : value(initial) {}  // NOLINT(google-explicit-constructor)

  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked r{0};
    r.overflow = __builtin_mul_overflow(a.value, b.value, &r.value) || a.overflow || b.overflow;
    return r;
  }
  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked r{0};
    r.overflow = __builtin_add_overflow(a.value, b.value, &r.value) || a.overflow || b.overflow;
    return r;
  }
};

/// a / b rounded up, for a >= 0 and b > 0; can't overflow.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace fmhax::detail
