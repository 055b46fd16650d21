/// @file Kernels called block by block on ordinary memory, and derivatives by central differences.
///
/// The runtime is left out on purpose: with std::vector as the memory, AddressSanitizer sees every access that leaves
/// an array.
#pragma once

#include <hiphost/kernel.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace fmhax::train::test {

using Values = std::vector<float>;

template <class Params>
void run_blocks(void (*kernel)(Params), const Params& params) {
  const dim3 grid = params.grid();
  hiphost::kernel_position.grid_size = {grid.x, grid.y, grid.z};
  for (std::uint32_t block = 0; block < grid.x; ++block) {
    hiphost::kernel_position.block = {block, 0, 0};
    kernel(params);
  }
}

inline Values random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0;  // twelve uniform values are nearly normal
    for (int k = 0; k < 12; ++k) sum += static_cast<float>(random() % 65536) / 65536.0F;
    values.push_back(sum - 6.0F);
  }
  return values;
}

/// Not a number everywhere: what a kernel fails to write shows.
inline Values poisoned(std::int64_t count) { return Values(static_cast<std::size_t>(count), std::nanf("")); }

inline double dot(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Compares `gradient` with the slope of `loss` around `at` along some random directions. The tolerance is relative to
/// the gradient's length, which is the size that a slope along a random direction has.
inline void check_gradient(const std::function<double(const Values&)>& loss, const Values& at, const Values& gradient,
                           double tolerance = 1e-3) {
  constexpr float kStep = 1e-2F;
  REQUIRE(at.size() == gradient.size());
  const double length = std::sqrt(dot(gradient, gradient));
  REQUIRE(length > 0.0);
  for (std::uint32_t seed = 1000; seed < 1006; ++seed) {
    const Values direction = random_values(static_cast<std::int64_t>(at.size()), seed);
    Values above = at;
    Values below = at;
    for (std::size_t i = 0; i < at.size(); ++i) {
      above[i] += kStep * direction[i];
      below[i] -= kStep * direction[i];
    }
    const double slope = (loss(above) - loss(below)) / (2.0 * static_cast<double>(kStep));
    CHECK(std::abs(slope - dot(gradient, direction)) <= tolerance * length);
  }
}

}  // namespace fmhax::train::test
