#include "svg.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <doctest/doctest.h>

#include "xml_check.hpp"

using namespace fmhax::sample;

namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

LineChart falling_loss() {
  LineChart chart{.title = "loss"};
  chart.series = {{"a", {0, 1, 2, 3}, {4, 3, 2.5, 2}}, {"b", {0, 1, 2, 3}, {5, 4, 3, 3}}};
  return chart;
}

}  // namespace

TEST_CASE("the XML check rejects what is not well-formed") {
  CHECK(xml_fault("<a b=\"1\"><c/>x &amp; y</a>\n").empty());
  for (const char* text : {"", "x", "<a>", "<a></b>", "<a/><b/>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "<a b=\"<\"/>",
                           "<a>&nbsp;</a>", "<a>x & y</a>", "<a", "<a>\x01</a>", "<a b=\"1\"c=\"2\"/>", "<a/>x"}) {
    CAPTURE(text);
    CHECK_FALSE(xml_fault(text).empty());
  }
}

TEST_CASE("a line chart is well-formed and has its own background") {
  const std::string svg = to_svg(falling_loss());
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find("fill=\"#ffffff\"") != std::string::npos);
  CHECK(occurrences(svg, "<path ") == 2);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("special characters in every text are escaped") {
  const std::string nasty = "<&\"'>\x02 ü";
  LineChart line = falling_loss();
  line.title = line.subtitle = line.x_label = line.y_label = line.series[0].name = line.series[0].colour = nasty;
  CHECK(xml_fault(to_svg(line)) == "");
  TimelineChart timeline{.title = nasty, .subtitle = nasty, .x_label = nasty};
  timeline.panels = {{nasty, {nasty}, {{0, 0, 10, nasty, nasty}}}};
  const std::string svg = to_svg(timeline);
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find("&lt;&amp;&quot;&apos;&gt; ü") != std::string::npos);
}

TEST_CASE("ticks are round numbers that cover the values") {
  LineChart chart{.title = ""};
  chart.series = {{"", {0, 400}, {1.31, 5.62}}};
  const std::string wide = to_svg(chart);
  for (const char* tick : {">1<", ">6<", ">50<", ">400<"}) CHECK(wide.find(tick) != std::string::npos);
  CHECK(wide.find(">450<") == std::string::npos);
  chart.series = {{"", {0, 0.004}, {-0.02, 0.02}}};
  const std::string narrow = to_svg(chart);
  for (const char* tick : {">0.0005<", ">-0.02<", ">0.00<"}) CHECK(narrow.find(tick) != std::string::npos);
}

TEST_CASE("a higher value is drawn higher, a later one further right") {
  LineChart chart{.title = ""};
  chart.series = {{"", {0, 10}, {1, 2}}};
  const std::string svg = to_svg(chart);
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
  REQUIRE(std::sscanf(svg.substr(svg.find("<path d=\"")).c_str(), "<path d=\"M%lf %lfL%lf %lf", &x0, &y0, &x1, &y1) ==
          4);
  CHECK(x1 > x0 + 500);
  CHECK(y1 < y0 - 200);
}

TEST_CASE("values that are not finite interrupt a curve, constant and missing data still draw") {
  LineChart chart{.title = "gaps"};
  chart.series = {{"", {0, 1, 2, 3, 4}, {1, 2, NAN, INFINITY, 5}}};
  const std::string svg = to_svg(chart);
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  const std::string path = svg.substr(svg.find("<path d="));
  CHECK(occurrences(path.substr(0, path.find(" fill")), "M") == 2);
  for (const auto& values : {std::vector<double>{3, 3}, std::vector<double>{0, 0}, std::vector<double>{1e300, 1e300},
                             std::vector<double>{NAN, NAN}}) {
    chart.series = {{"", {7, 7}, values}};
    CHECK(xml_fault(to_svg(chart)) == "");
    CHECK(to_svg(chart).find("nan") == std::string::npos);
  }
  chart.series.clear();
  CHECK(xml_fault(to_svg(chart)) == "");
}

TEST_CASE("a timeline draws every span in its lane with one colour for each category") {
  TimelineChart chart{.title = "timeline"};
  chart.panels = {{"first", {"up", "down"}, {{0, 0, 2, "copy"}, {1, 2, 9, "kernel", "k0"}, {0, 2, 4, "copy"}}},
                  {"second", {"all"}, {{0, 0, 20, "kernel", "k1"}}}};
  const std::string svg = to_svg(chart);
  CHECK(xml_fault(svg) == "");
  CHECK(occurrences(svg, "<g><title>copy: ") == 2);
  CHECK(occurrences(svg, "#2563eb") == 3);  // two spans and the legend
  CHECK(occurrences(svg, "#e8590c") == 3);
  CHECK(svg.find("k1: 0.000 to 20.000 ms") != std::string::npos);
}

TEST_CASE("wrong data are refused") {
  LineChart line{.title = ""};
  line.series = {{"", {1, 2}, {1}}};
  CHECK_THROWS_AS(to_svg(line), std::invalid_argument);
  TimelineChart timeline{.title = ""};
  timeline.panels = {{"", {"only"}, {{1, 0, 1, "x"}}}};
  CHECK_THROWS_AS(to_svg(timeline), std::invalid_argument);
  CHECK_THROWS_AS(write_text_file("/nonexistent-folder/x.svg", ""), std::runtime_error);
}

TEST_CASE("a text file holds exactly what was written, also over a longer one") {
  const std::string path = "fmhax_svg_test.txt";
  write_text_file(path, "a longer text\n");
  write_text_file(path, "short\n");
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  CHECK(content.str() == "short\n");
  std::remove(path.c_str());
}

TEST_CASE("the moving average is the mean of the last values") {
  CHECK(moving_average({2, 4, 9, 1}, 2) == std::vector<double>{2, 3, 6.5, 5});
  CHECK(moving_average({2, 4, 9}, 10) == std::vector<double>{2, 3, 5});
  CHECK(moving_average({2, 4}, 0) == std::vector<double>{2, 4});
  CHECK(moving_average({}, 3).empty());
}
