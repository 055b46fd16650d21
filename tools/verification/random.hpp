/// @file A random stream that gives the same numbers with every standard library.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace fmhax::verification {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class Random {
 public:
  /// Streams of different (seed, index) are independent.
  explicit Random(std::uint64_t seed, std::uint64_t index = 0);

  std::uint64_t next();
  /// Uniform in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high);
  bool chance(int percent) { return integer(1, 100) <= percent; }
  /// Uniform in (0, 1].
  double uniform();
  /// Standard normal.
  double normal();

  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *std::next(choices.begin(), integer(0, static_cast<std::int64_t>(choices.size()) - 1));
  }

 private:
  std::uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace fmhax::verification
