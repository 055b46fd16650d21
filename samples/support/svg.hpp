/// @file Two charts as standalone SVG text: lines over a numeric axis (loss curves) and timelines (what ran when, on
/// which stream). Each chart paints its own light background, so it reads the same on a white and on a dark page.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fmhax::sample {

/// One curve. A point that is not finite interrupts it.
struct LineSeries {
  std::string name;  ///< shown in the legend; empty: not shown
  std::vector<double> x;
  std::vector<double> y;       ///< as many as x
  std::string colour{};        ///< "#rrggbb"; empty: the next of the palette
  bool is_background = false;  ///< drawn thin and pale, e.g. raw values behind their moving average
};

struct LineChart {
  std::string title;
  std::string subtitle{};
  std::string x_label{};
  std::string y_label{};
  std::vector<LineSeries> series{};
  bool starts_at_zero = false;  ///< the y axis includes 0
  double width = 760;
  double height = 400;
};

/// One thing that ran in a lane, from begin to end on the panel's axis.
struct TimelineSpan {
  std::size_t lane = 0;  ///< index into the panel's lanes
  double begin = 0;
  double end = 0;
  std::string category;  ///< one colour each, named in the legend
  std::string label{};   ///< written into the span where it fits, and shown when the pointer rests on it
};

/// Lanes under one another; panels of a chart share the time axis, so their lengths can be compared.
struct TimelinePanel {
  std::string title{};
  std::vector<std::string> lanes;
  std::vector<TimelineSpan> spans;
};

struct TimelineChart {
  std::string title;
  std::string subtitle{};
  std::string x_label = "ms";
  std::vector<TimelinePanel> panels{};
  double width = 900;
};

/// The chart as a complete SVG document (UTF-8). Throws std::invalid_argument when x and y of a series differ in
/// length or a span names a lane that its panel lacks.
std::string to_svg(const LineChart& chart);
std::string to_svg(const TimelineChart& chart);

/// Replaces the file's contents. Throws std::runtime_error naming the path when that fails.
void write_text_file(const std::string& path, const std::string& text);

/// Mean of the last `window` values at each place (fewer at the start): a readable curve out of a noisy one.
std::vector<double> moving_average(const std::vector<double>& values, std::size_t window);

}  // namespace fmhax::sample
