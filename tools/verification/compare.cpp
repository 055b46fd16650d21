#include "verification/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace fmhax::verification {
namespace {

/// Below this share of the uncancelled terms a gradient counts as cancelled.
constexpr double kCancelledShare = 0.1;

/// Where the formula in fp32 misses the tolerance, what a kernel may add to its error.
constexpr double kRoundedMargin = 1.25;

std::string place_text(const DenseTensor& tensor, std::size_t index) {
  const auto i = static_cast<std::int64_t>(index);
  return fmt::format("[batch {}, row {}, head {}, column {}]", i / (tensor.hdim * tensor.nhead * tensor.seqlen),
                     i / (tensor.hdim * tensor.nhead) % tensor.seqlen, i / tensor.hdim % tensor.nhead, i % tensor.hdim);
}

std::string find_non_finite(const DenseTensor& tensor) {
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    if (!std::isfinite(tensor.data[i])) return fmt::format("{} at {}", tensor.data[i], place_text(tensor, i));
  }
  return {};
}

std::string find_nonzero_in_inactive(const DenseTensor& tensor, const std::vector<char>& active) {
  if (active.empty()) return {};
  const std::size_t elements = tensor.data.size() / active.size();  // that one flag speaks of
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    if (active[i / elements] == 0 && tensor.data[i] != 0.0) {
      return fmt::format("{} instead of 0 where nothing takes part, at {}", tensor.data[i], place_text(tensor, i));
    }
  }
  return {};
}

std::string find_wrong_byte(const DenseTensor& value, const DenseTensor& expected) {
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    if (expected.data[i] >= 0 && value.data[i] != expected.data[i]) {
      return fmt::format("random_values: {} instead of {} at {}", value.data[i], expected.data[i],
                         place_text(expected, i));
    }
  }
  return {};
}

/// Zeroes, in all three, what even the exact sum rounds to infinity in the gradient's type and came out so.
void take_out_overflow(DenseTensor& value, DenseTensor& reference, DenseTensor& rounded) {
  for (std::size_t i = 0; i < rounded.data.size(); ++i) {
    if (std::isinf(rounded.data[i]) && value.data[i] == rounded.data[i]) {
      value.data[i] = reference.data[i] = rounded.data[i] = 0.0;
    }
  }
}

GradientCheck check_gradient(const char* name, double tolerance, DenseTensor value, DenseTensor reference,
                             DenseTensor rounded, double terms, const std::vector<char>& active) {
  if (std::any_of(rounded.data.begin(), rounded.data.end(), [](double x) { return std::isinf(x); })) {
    take_out_overflow(value, reference, rounded);
  }
  GradientCheck check;
  check.name = name;
  check.tolerance = tolerance;
  check.error = relative_error(value, reference, terms);
  if (!rounded.data.empty()) {
    check.rounded_error = relative_error(rounded, reference, terms);
    check.tolerance = std::max(tolerance, kRoundedMargin * check.rounded_error);
  }
  const double twice = std::max(2 * check.rounded_error, tolerance / 4);
  check.failure = find_non_finite(value);
  if (check.failure.empty()) check.failure = find_nonzero_in_inactive(value, active);
  if (check.failure.empty() && !(check.error <= check.tolerance)) {
    check.failure = fmt::format("error {:.3g} is above the tolerance {:.3g}", check.error, check.tolerance);
  }
  if (check.failure.empty() && check.rounded_error >= 0 && !(check.error <= twice)) {
    check.failure = fmt::format("error {:.3g} is more than twice that of the formula in fp32, {:.3g}", check.error,
                                check.rounded_error);
  }
  return check;
}

bool same_bits(const DenseTensor& a, const DenseTensor& b) {
  return a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(double)) == 0);
}

}  // namespace

Expected expected_of(const AttentionInputs& inputs) {
  Expected expected;
  expected.forward = reference_forward(inputs);
  expected.backward = reference_backward(inputs, expected.forward);
  if (inputs.problem.dtype != DataType::fp32) expected.rounded = rounded_backward(inputs, expected.forward);
  if (inputs.problem.stores_random_values) expected.random_values = reference_random_values(inputs);
  for (const double lse : expected.forward.lse.data) {
    if (std::isfinite(lse)) expected.largest_logit = std::max(expected.largest_logit, std::fabs(lse));
  }
  return expected;
}

double relative_error(const DenseTensor& value, const DenseTensor& reference, double terms) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < reference.data.size(); ++i) {
    const double delta = value.data[i] - reference.data[i];
    difference += delta * delta;
    norm += reference.data[i] * reference.data[i];
  }
  if (difference == 0) return 0;
  const double size = std::max(std::sqrt(norm), kCancelledShare * terms);
  return size > 0 ? std::sqrt(difference) / size : std::numeric_limits<double>::infinity();
}

double tolerance_for(const Problem& problem, double largest_logit) {
  switch (problem.dtype) {
    case DataType::fp16:
      return 2e-3;
    case DataType::bf16:
      return 1e-2;
    case DataType::fp32:
    case DataType::uint8:
      break;
  }
  const double roundings = 2 + std::sqrt(static_cast<double>(problem.hdim_q));
  return std::max(1e-5, std::ldexp(roundings * largest_logit, -24));
}

bool Comparison::passed() const { return failure().empty(); }

std::string Comparison::failure() const {
  for (const GradientCheck& check : checks) {
    if (!check.failure.empty()) return fmt::format("{}: {}", check.name, check.failure);
  }
  return wrong_byte;
}

Comparison compare(const Case& c, const Gradients& result, const Expected& expected) {
  const BackwardResult& b = expected.backward;
  const double tolerance = tolerance_for(c.problem, expected.largest_logit);
  const Gradients& reference = b.gradients;
  const Gradients& rounded = expected.rounded;
  Comparison comparison;
  const auto check = [&](const char* name, DenseTensor Gradients::*gradient, double terms,
                         const std::vector<char>& active) {
    comparison.checks.push_back(
        check_gradient(name, tolerance, result.*gradient, reference.*gradient, rounded.*gradient, terms, active));
  };
  check("dq", &Gradients::dq, b.dq_terms, b.query_is_active);
  check("dk", &Gradients::dk, b.dk_terms, b.key_is_active);
  check("dv", &Gradients::dv, b.dv_terms, b.key_is_active);
  if (c.problem.has_dbias) check("dbias", &Gradients::dbias, b.dbias_terms, b.dbias_is_active);
  if (c.problem.has_sink) check("dsink", &Gradients::dsink, b.dsink_terms, {});
  if (c.problem.stores_random_values) {
    comparison.wrong_byte = find_wrong_byte(result.random_values, expected.random_values);
  }
  return comparison;
}

bool same_bits(const Gradients& a, const Gradients& b) {
  return same_bits(a.dq, b.dq) && same_bits(a.dk, b.dk) && same_bits(a.dv, b.dv) && same_bits(a.dbias, b.dbias) &&
         same_bits(a.dsink, b.dsink) && same_bits(a.random_values, b.random_values);
}

}  // namespace fmhax::verification
