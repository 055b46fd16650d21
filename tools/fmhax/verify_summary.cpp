#include "verify_summary.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "fmhax/problem.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

constexpr std::array<DataType, 3> kDataTypes{DataType::fp32, DataType::fp16, DataType::bf16};
constexpr std::array<const char*, 5> kGradients{"dq", "dk", "dv", "dbias", "dsink"};

/// Larger is worse; NaN is the worst.
double badness(double error, double tolerance) { return std::isnan(error) ? INFINITY : error / tolerance; }

/// The features of a problem, for counting; without any, "none".
std::vector<const char*> features_of(const verification::Case& c) {
  const Problem& p = c.problem;
  std::vector<const char*> names;
  const auto add = [&names](bool has, const char* name) {
    if (has) names.push_back(name);
  };
  add(p.bias == BiasKind::elementwise, "bias");
  add(p.has_dbias, "dbias");
  add(p.bias == BiasKind::alibi, "alibi");
  add(p.has_softcap, "softcap");
  add(p.has_dropout, "dropout");
  add(p.stores_random_values, "random_values");
  add(p.has_sink, "sink");
  add(p.has_dlse, "dlse");
  if (names.empty()) names.push_back("none");
  return names;
}

}  // namespace

void VerifySummary::add(std::uint64_t index, const verification::Case& c, const verification::CaseReport& report) {
  ++count_;
  auto& worst = worst_[static_cast<std::size_t>(c.problem.dtype)];
  for (const verification::ModeReport& mode : report.modes) {
    for (const verification::GradientCheck& check : mode.comparison.checks) {
      const auto* const name = std::find(kGradients.begin(), kGradients.end(), std::string_view(check.name));
      WorstError& w = worst[static_cast<std::size_t>(name - kGradients.begin())];
      if (!w.is_set || badness(check.error, check.tolerance) > badness(w.error, w.tolerance)) {
        w = {check.error, check.tolerance, index, true};
      }
    }
  }
  for (const char* name : features_of(c)) ++features_[name];
  if (c.problem.is_deterministic) {
    ++deterministic_;
    equal_bit_runs_ += report.modes.size();
  }
  if (report.passed()) return;
  failures_.push_back({index, to_string(c), report.failure,
                       fmt::format("fmhax verify --random 1 --seed {} --first {}{}", seed_, index, other_flags_)});
}

std::string VerifySummary::text() const {
  std::string out;
  for (const Failure& failure : failures_) {
    out += fmt::format("FAILED problem {}: {}\n  {}\n  reproduce: {}\n", failure.problem, failure.what,
                       failure.description, failure.reproduce);
  }
  out += fmt::format("\n{:<6} {:<5} {:>12} {:>12}   problem\n", "dtype", "", "worst error", "tolerance");
  for (const DataType dtype : kDataTypes) {
    for (std::size_t g = 0; g < kGradients.size(); ++g) {
      const WorstError& w = worst_[static_cast<std::size_t>(dtype)][g];
      if (!w.is_set) continue;
      out += fmt::format("{:<6} {:<5} {:>12.3e} {:>12.3e}   {}\n", to_string(dtype), kGradients[g], w.error,
                         w.tolerance, w.problem);
    }
  }
  out += "\nproblems with";
  for (const auto& [name, count] : features_) out += fmt::format("  {} {}", name, count);
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
          {"features", features_},
          {"worst", worst},
          {"failures", failures}};
}

}  // namespace fmhax::tool
