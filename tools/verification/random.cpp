#include "verification/random.hpp"

#include <cmath>
#include <numbers>

namespace fmhax::verification {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t index) : state_(mix(mix(seed + kGolden) + index * kGolden)) {}

std::uint64_t Random::next() {
  state_ += kGolden;
  return mix(state_);
}

std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  // The remainder's bias is below 2^-50 for the ranges of a few thousand that are asked for.
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

double Random::uniform() { return std::ldexp(static_cast<double>((next() >> 11U) + 1), -53); }

double Random::normal() {
  has_spare_ = !has_spare_;
  if (!has_spare_) return spare_;
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

}  // namespace fmhax::verification
