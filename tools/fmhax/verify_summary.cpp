#include "verify_summary.hpp"

#include <cmath>

#include <fmt/format.h>

#include "fmhax/problem.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

constexpr std::array<DataType, 3> kDataTypes{DataType::fp32, DataType::fp16, DataType::bf16};
constexpr std::array<const char*, 3> kGradients{"dq", "dk", "dv"};

/// Larger is worse; NaN is the worst.
double badness(double error, double tolerance) { return std::isnan(error) ? INFINITY : error / tolerance; }

}  // namespace

void VerifySummary::add(std::uint64_t index, const verification::Case& c, const verification::CaseReport& report) {
  ++count_;
  auto& worst = worst_[static_cast<std::size_t>(c.problem.dtype)];
  for (const verification::ModeReport& mode : report.modes) {
    for (std::size_t g = 0; g < kGradients.size(); ++g) {
      const verification::GradientCheck& check = mode.comparison.checks[g];
      WorstError& w = worst[g];
      if (!w.is_set || badness(check.error, check.tolerance) > badness(w.error, w.tolerance)) {
        w = {check.error, check.tolerance, index, true};
      }
    }
  }
  if (c.problem.is_deterministic) {
    ++deterministic_;
    equal_bit_runs_ += report.modes.size();
  }
  if (report.passed()) return;
  failures_.push_back({index, to_string(c), report.failure,
                       fmt::format("fmhax verify --random 1 --seed {} --first {}{}", seed_, index, executor_flags_)});
}

std::string VerifySummary::text() const {
  std::string out;
  for (const Failure& failure : failures_) {
    out += fmt::format("FAILED problem {}: {}\n  {}\n  reproduce: {}\n", failure.problem, failure.what,
                       failure.description, failure.reproduce);
  }
  out += fmt::format("\n{:<6} {:<4} {:>12} {:>12}   problem\n", "dtype", "", "worst error", "tolerance");
  for (const DataType dtype : kDataTypes) {
    for (std::size_t g = 0; g < kGradients.size(); ++g) {
      const WorstError& w = worst_[static_cast<std::size_t>(dtype)][g];
      if (!w.is_set) continue;
      out += fmt::format("{:<6} {:<4} {:>12.3e} {:>12.3e}   {}\n", to_string(dtype), kGradients[g], w.error,
                         w.tolerance, w.problem);
    }
  }
  out += fmt::format("\n{} deterministic problems: {} runs, eager and graph, compared bit for bit\n", deterministic_,
                     equal_bit_runs_);
  out += fmt::format("count {}  seed {}  first {}  failed {}\n", count_, seed_, first_, failures_.size());
  return out;
}

json VerifySummary::to_json() const {
  json worst = json::object();
  for (const DataType dtype : kDataTypes) {
    for (std::size_t g = 0; g < kGradients.size(); ++g) {
      const WorstError& w = worst_[static_cast<std::size_t>(dtype)][g];
      if (!w.is_set) continue;
      // JSON has no NaN; the library writes null for it.
      worst[to_string(dtype)][kGradients[g]] = {{"error", w.error}, {"tolerance", w.tolerance}, {"problem", w.problem}};
    }
  }
  json failures = json::array();
  for (const Failure& failure : failures_) {
    failures.push_back({{"problem", failure.problem},
                        {"description", failure.description},
                        {"failure", failure.what},
                        {"reproduce", failure.reproduce}});
  }
  return {{"count", count_},
          {"seed", seed_},
          {"first", first_},
          {"failed", failures_.size()},
          {"deterministic", deterministic_},
          {"equal_bit_runs", equal_bit_runs_},
          {"worst", worst},
          {"failures", failures}};
}

}  // namespace fmhax::tool
