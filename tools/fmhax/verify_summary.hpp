/// @file What `fmhax verify` has found so far, and how it is printed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "verification/case.hpp"
#include "verification/verify_case.hpp"

namespace fmhax::tool {

/// The gradient that came closest to its tolerance, or passed it by most.
struct WorstError {
  double error = 0.0;
  double tolerance = 0.0;
  std::uint64_t problem = 0;  ///< its index in the list
  bool is_set = false;
};

struct Failure {
  std::uint64_t problem = 0;
  std::string description;  ///< of the problem
  std::string what;
  std::string reproduce;  ///< a complete command line
};

class VerifySummary {
 public:
  VerifySummary(std::uint64_t seed, std::uint64_t first, std::string other_flags)
      : seed_(seed), first_(first), other_flags_(std::move(other_flags)) {}

  void add(std::uint64_t index, const verification::Case& c, const verification::CaseReport& report);
  bool passed() const { return failures_.empty(); }
  std::string text() const;
  nlohmann::json to_json() const;

 private:
  std::uint64_t seed_;
  std::uint64_t first_;
  std::string other_flags_;
  std::uint64_t count_ = 0;
  std::uint64_t deterministic_ = 0;                   ///< problems whose runs had to give equal bits
  std::uint64_t equal_bit_runs_ = 0;                  ///< their runs, all kinds together
  std::array<std::array<WorstError, 5>, 3> worst_{};  ///< [dtype][gradient]
  std::map<std::string, std::uint64_t> features_;     ///< problems that had each
  std::vector<Failure> failures_;
};

}  // namespace fmhax::tool
