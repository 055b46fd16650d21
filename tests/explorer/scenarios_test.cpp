// The library under seeded schedules: no race, no wrong bit, no staging that stays out.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "explore_run.hpp"

using namespace fmhax::tool;

TEST_CASE("every scenario passes under a few hundred schedules, nearly all of them distinct") {
  constexpr std::uint64_t kSeeds = 300;
  Explorations explorations;
  REQUIRE_GE(explorations.scenarios().size(), 11);
  for (const auto& scenario : explorations.scenarios()) {
    const std::string name = scenario->name();
    CAPTURE(name);
    ScenarioSummary summary;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) summary.add(explorations.run(*scenario, seed));
    CAPTURE(summary.findings);
    CHECK(summary.passed());
    CHECK_EQ(summary.schedules, kSeeds);
    CHECK_GE(summary.distinct.size(), kSeeds * 8 / 10);
  }
}

TEST_CASE("a seed gives the same schedule again, also after other seeds and in another world") {
  Explorations explorations;
  Explorations other;
  for (std::size_t i = 0; i < explorations.scenarios().size(); ++i) {
    Scenario& scenario = *explorations.scenarios()[i];
    const std::string name = scenario.name();
    CAPTURE(name);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const SeedResult first = explorations.run(scenario, seed);
      (void)explorations.run(scenario, seed + 1000);
      const SeedResult again = explorations.run(scenario, seed);
      CHECK_EQ(first.report.schedule_hash, again.report.schedule_hash);
      CHECK_EQ(first.report.tasks, again.report.tasks);
      const SeedResult elsewhere = other.run(*other.scenarios()[i], seed);
      CHECK_EQ(first.report.schedule_hash, elsewhere.report.schedule_hash);
    }
  }
}
