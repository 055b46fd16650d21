// The explorer is worth what it finds: every dependency of the node list, left out, must show.
#include <optional>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "explore_run.hpp"

using namespace fmhax::tool;

namespace {

#ifdef __SANITIZE_ADDRESS__
// Kernels whose metadata come too late use whatever is there, and may leave their buffers.
constexpr bool kIsAddressSanitized = true;
#else
constexpr bool kIsAddressSanitized = false;
#endif

// The first seed, counted from 1, that reports a race between both nodes of the edge.
std::optional<std::uint64_t> seeds_until_found(const Edge& edge, std::uint64_t most) {
  Explorations explorations(&edge);
  for (std::uint64_t seed = 0; seed < most; ++seed) {
    Scenario& scenario = *explorations.scenarios()[seed % explorations.scenarios().size()];
    for (const hiphost::Race& race : explorations.run(scenario, seed).report.races) {
      if (names_edge(race, edge)) return seed + 1;
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("every edge of the node list is missed within 200 seeds, by the names of both nodes" *
          doctest::skip(kIsAddressSanitized)) {
  const std::vector<Edge> edges = Explorations().edges();
  REQUIRE_GE(edges.size(), 16);
  for (const Edge& edge : edges) {
    CAPTURE(edge.before);
    CAPTURE(edge.after);
    CHECK(seeds_until_found(edge, 200).has_value());
  }
}

TEST_CASE("dropping an edge lasts no longer than the explorations that asked for it") {
  const Edge edge{"pack", "upload"};
  { Explorations without(&edge); }
  Explorations whole;
  for (const auto& scenario : whole.scenarios()) CHECK(whole.run(*scenario, 3).passed());
}

TEST_CASE("an edge between unknown nodes is refused with the names that exist") {
  const Edge edge{"pakc", "upload"};
  CHECK_THROWS_WITH_AS(Explorations{&edge}, doctest::Contains("convert_dq"), std::invalid_argument);
}
