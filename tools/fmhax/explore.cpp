#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "explore_run.hpp"
#include "problem_flags.hpp"

namespace fmhax::tool {
namespace {

using nlohmann::json;

struct ExploreFlags {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 0;
  std::vector<std::string> scenarios;
  std::string dropped_edge;
  bool injects_faults = false;
  bool prints_json = false;
};

std::vector<Scenario*> chosen_scenarios(const Explorations& explorations, const std::vector<std::string>& names) {
  std::vector<Scenario*> chosen;
  std::string known;
  for (const auto& scenario : explorations.scenarios()) {
    known += known.empty() ? "" : ", ";
    known += scenario->name();
    if (names.empty()) chosen.push_back(scenario.get());
  }
  for (const std::string& name : names) {
    const auto& all = explorations.scenarios();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s->name() == name; });
    if (found == all.end()) throw UsageError(fmt::format("--scenario {}: there are {}", name, known));
    chosen.push_back(found->get());
  }
  return chosen;
}

Edge parse_edge(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    throw UsageError(fmt::format("--drop-edge {}: two nodes as `fmhax plan` prints them, e.g. pack:upload", text));
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

json to_json(const ScenarioSummary& s) {
  return {{"scenario", s.name}, {"schedules", s.schedules}, {"distinct", s.distinct.size()},
          {"tasks", s.tasks},   {"races", s.races},         {"mismatches", s.mismatches},
          {"leaks", s.leaks},   {"errors", s.errors},       {"findings", s.findings}};
}

void print_table(const std::vector<ScenarioSummary>& summaries) {
  fmt::print("{:<12} {:>9} {:>9} {:>9} {:>6} {:>10} {:>6} {:>6}\n", "scenario", "schedules", "distinct", "tasks",
             "races", "mismatches", "leaks", "errors");
  for (const ScenarioSummary& s : summaries) {
    fmt::print("{:<12} {:>9} {:>9} {:>9} {:>6} {:>10} {:>6} {:>6}\n", s.name, s.schedules, s.distinct.size(), s.tasks,
               s.races, s.mismatches, s.leaks, s.errors);
  }
  for (const ScenarioSummary& s : summaries) {
    for (const std::string& finding : s.findings) fmt::print("{}, {}\n", s.name, finding);
  }
}

ScenarioSummary total_of(const std::vector<ScenarioSummary>& summaries) {
  ScenarioSummary total;
  total.name = "all";
  for (const ScenarioSummary& s : summaries) {
    total.schedules += s.schedules;
    total.tasks += s.tasks;
    total.races += s.races;
    total.mismatches += s.mismatches;
    total.leaks += s.leaks;
    total.errors += s.errors;
    // Schedules of two scenarios differ, whatever their hashes are.
    for (const std::uint64_t hash : s.distinct) total.distinct.insert(hash ^ std::hash<std::string>{}(s.name));
  }
  return total;
}

int run_seeds(const ExploreFlags& flags) {
  std::optional<Edge> edge;
  if (!flags.dropped_edge.empty()) edge = parse_edge(flags.dropped_edge);
  std::unique_ptr<Explorations> explorations;
  try {
    explorations = std::make_unique<Explorations>(edge ? &*edge : nullptr);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--drop-edge {}: {}", flags.dropped_edge, error.what()));
  }
  const std::vector<Scenario*> scenarios = chosen_scenarios(*explorations, flags.scenarios);
  std::vector<ScenarioSummary> summaries(scenarios.size());
  for (std::size_t i = 0; i < scenarios.size(); ++i) summaries[i].name = scenarios[i]->name();
  json found;
  for (std::uint64_t i = 0; i < flags.seeds && found.is_null(); ++i) {
    const std::uint64_t seed = flags.first + i;
    const std::size_t place = seed % scenarios.size();
    const SeedResult result = explorations->run(*scenarios[place], seed);
    summaries[place].add(result);
    if (!edge) continue;
    for (const hiphost::Race& race : result.report.races) {
      if (!names_edge(race, *edge)) continue;
      found = {{"edge", flags.dropped_edge},
               {"scenario", scenarios[place]->name()},
               {"seed", seed},
               {"after_seeds", i + 1},
               {"race", to_string(race)}};
      break;
    }
  }
  const ScenarioSummary total = total_of(summaries);
  summaries.push_back(total);
  if (flags.prints_json) {
    json all{{"scenarios", json::array()}, {"first_seed", flags.first}, {"passed", total.passed()}};
    for (const ScenarioSummary& summary : summaries) all["scenarios"].push_back(to_json(summary));
    if (edge) all["dropped_edge"] = found;
    fmt::print("{}\n", all.dump(2));
  } else {
    print_table(summaries);
    if (!found.is_null()) {
      fmt::print("\nwithout {}: found after {} seeds, scenario {}, seed {}\n{}\n", flags.dropped_edge,
                 found["after_seeds"].get<std::uint64_t>(), found["scenario"].get<std::string>(),
                 found["seed"].get<std::uint64_t>(), found["race"].get<std::string>());
    }
  }
  return total.passed() ? 0 : 1;
}

int run_faults(const ExploreFlags& flags) {
  if (!flags.dropped_edge.empty()) throw UsageError("--drop-edge and --faults exclude each other");
  Explorations explorations;
  std::vector<FaultSummary> summaries;
  for (Scenario* scenario : chosen_scenarios(explorations, flags.scenarios)) {
    summaries.push_back(explorations.run_faults(*scenario, flags.first));
  }
  bool passed = true;
  for (const FaultSummary& s : summaries) passed = passed && s.findings.empty();
  if (flags.prints_json) {
    json all{{"scenarios", json::array()}, {"passed", passed}};
    for (const FaultSummary& s : summaries) {
      json findings = json::array();
      for (const FaultFinding& f : s.findings) {
        findings.push_back({{"point", f.point}, {"call", f.call}, {"what", f.what}});
      }
      all["scenarios"].push_back({{"scenario", s.name},
                                  {"hip_calls", s.hip_calls},
                                  {"allocator_calls", s.allocator_calls},
                                  {"findings", findings}});
    }
    fmt::print("{}\n", all.dump(2));
    return passed ? 0 : 1;
  }
  fmt::print("{:<12} {:>10} {:>16} {:>9}\n", "scenario", "HIP calls", "allocator calls", "findings");
  for (const FaultSummary& s : summaries) {
    fmt::print("{:<12} {:>10} {:>16} {:>9}\n", s.name, s.hip_calls, s.allocator_calls, s.findings.size());
  }
  for (const FaultSummary& s : summaries) {
    for (const FaultFinding& f : s.findings) fmt::print("{}, call {} ({}): {}\n", s.name, f.point, f.call, f.what);
  }
  return passed ? 0 : 1;
}

}  // namespace

std::vector<Command> add_platform_commands(CLI::App& application) {
  auto flags = std::make_shared<ExploreFlags>();
  CLI::App* app = application.add_subcommand(
      "explore",
      "Run small programs on several streams under many seeded schedules, and look for races, wrong gradients and\n"
      "leaks; or let each call that they make fail in turn. Only on the CPU platform. Exit status 1 when anything is\n"
      "found, also with --drop-edge, where something should be.");
  app->add_option("--seeds", flags->seeds, "How many schedules to run, dealt to the scenarios in turn")
      ->capture_default_str();
  app->add_option("--first", flags->first, "The first seed; a finding names its seed. With --faults the only one")
      ->capture_default_str();
  app->add_option("--scenario", flags->scenarios,
                  "Only these: eager, replays, captures, destruction, pool, split, direct, update, allocators");
  app->add_option("--drop-edge", flags->dropped_edge,
                  "A:B, nodes as `fmhax plan` prints them: B no longer waits for A. Stops when a race between both is "
                  "found");
  app->add_flag("--faults", flags->injects_faults,
                "Let the n-th HIP call, then the n-th call of the caller's allocators, fail, for every n");
  app->add_flag("--json", flags->prints_json, "Print the results as JSON");
  return {{app, [flags] { return flags->injects_faults ? run_faults(*flags) : run_seeds(*flags); }}};
}

}  // namespace fmhax::tool
