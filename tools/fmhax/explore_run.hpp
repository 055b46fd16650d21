/// @file Running scenarios under seeds, with dependencies left out, and with failing calls.
#pragma once

#include <hiphost/explore.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "explore_calls.hpp"
#include "explore_scenarios.hpp"

namespace fmhax::tool {

/// What one seed of one scenario gave.
struct SeedResult {
  hiphost::ExplorationReport report;
  std::string mismatch;  ///< gradients that differ from those of the call alone
  std::string leak;      ///< staging that did not come back
  std::string error;     ///< what was thrown
  bool passed() const { return report.clean() && mismatch.empty() && leak.empty() && error.empty(); }
};

/// A scenario's seeds together.
struct ScenarioSummary {
  std::string name;
  std::uint64_t schedules = 0;
  std::set<std::uint64_t> distinct;
  std::uint64_t tasks = 0, races = 0, mismatches = 0, leaks = 0, errors = 0;
  std::vector<std::string> findings;  ///< the first few, with their seeds
  bool passed() const { return races + mismatches + leaks + errors == 0; }
  void add(const SeedResult& result);
};

/// One injected failure that was not handled as it should be.
struct FaultFinding {
  std::uint64_t point = 0;
  std::string call;  ///< that failed
  std::string what;
};
struct FaultSummary {
  std::string name;
  std::uint64_t hip_calls = 0;        ///< tried: each in turn
  std::uint64_t allocator_calls = 0;  ///< likewise, once throwing and once returning null
  std::vector<FaultFinding> findings;
};

/// The name of an edge of the node list, as `fmhax plan` prints the nodes.
struct Edge {
  std::string before, after;
};

/// Whether the race is between these two nodes.
bool names_edge(const hiphost::Race& race, const Edge& edge);

class Explorations {
 public:
  /// Makes the calls, and what they give alone, before the edge is left out of the scenarios' graphs and calls. Throws
  /// std::invalid_argument for names that no node has.
  explicit Explorations(const Edge* dropped_edge = nullptr);
  ~Explorations();

  /// Every edge that the node lists of the scenarios' calls have now.
  std::vector<Edge> edges() const;
  const std::vector<std::unique_ptr<Scenario>>& scenarios() const { return scenarios_; }
  SeedResult run(Scenario& scenario, std::uint64_t seed);
  /// Fails every call that the seed's schedule makes, one in each run.
  FaultSummary run_faults(Scenario& scenario, std::uint64_t seed);

 private:
  /// The n-th call, of one kind.
  struct Fault {
    enum class Of { hip, allocator_throws, allocator_null } of;
    std::uint64_t point;
    std::uint64_t seed;
  };

  void forget_results();
  std::string mismatch() const;
  /// False when there is no such call.
  bool try_fault(Scenario& scenario, const Fault& fault, FaultSummary& summary);
  void call_everything_again();

  ExploredWorld world_;
  std::vector<std::unique_ptr<Scenario>> scenarios_;
};

}  // namespace fmhax::tool
