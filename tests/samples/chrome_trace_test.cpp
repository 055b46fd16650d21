#include "chrome_trace.hpp"

#include <stdexcept>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace fmhax::sample;

TEST_CASE("a trace names its processes and threads and holds each span in microseconds") {
  const std::vector<TimelinePanel> panels = {{"one", {"all"}, {{0, 0.5, 2, "copy"}}},
                                             {"two", {"up", "down"}, {{1, 1, 1.25, "copy", "block \"7\" ü"}}}};
  const auto trace = nlohmann::json::parse(to_chrome_trace(panels));
  std::vector<nlohmann::json> names;
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace.at("traceEvents")) (event.at("ph") == "M" ? names : spans).push_back(event);

  REQUIRE(names.size() == 5);
  CHECK(names[0].at("name") == "process_name");
  CHECK(names[0].at("args").at("name") == "one");
  CHECK(names[4].at("name") == "thread_name");
  CHECK(names[4].at("pid") == 1);
  CHECK(names[4].at("tid") == 1);
  CHECK(names[4].at("args").at("name") == "down");

  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("ph") == "X");
  CHECK(spans[0].at("name") == "copy");
  CHECK(spans[0].at("ts").get<double>() == doctest::Approx(500));
  CHECK(spans[0].at("dur").get<double>() == doctest::Approx(1500));
  CHECK(spans[1].at("name") == "block \"7\" ü");
  CHECK(spans[1].at("cat") == "copy");
  CHECK(spans[1].at("pid") == 1);
  CHECK(spans[1].at("tid") == 1);
}

TEST_CASE("a trace without spans is an empty list, text that is no UTF-8 still gives JSON") {
  CHECK(nlohmann::json::parse(to_chrome_trace({})).at("traceEvents").empty());
  CHECK(nlohmann::json::accept(to_chrome_trace({{"\xff", {"a"}, {{0, 0, 1, "\xfe"}}}})));
}

TEST_CASE("a span in a lane that is not there is refused") {
  CHECK_THROWS_AS(to_chrome_trace({{"", {"a"}, {{1, 0, 1, "x"}}}}), std::invalid_argument);
}
