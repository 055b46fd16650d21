#include "svg.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "svg_canvas.hpp"

namespace fmhax::sample {
namespace {

using namespace svg;

double opacity_of(const LineSeries& series) { return series.is_background ? 0.4 : 1.0; }

std::string curve_path(const LineSeries& series, const Axis& x_axis, const Axis& y_axis) {
  std::string path;
  bool is_down = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) {
      is_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", is_down ? "L" : "M", x_axis.pixel(series.x[i]), y_axis.pixel(series.y[i]));
    is_down = true;
  }
  return path;
}

void draw_span(Canvas& canvas, const TimelineSpan& span, const Axis& axis, double y, double height,
               const std::string& colour, const std::string& x_label) {
  constexpr double kLabelSize = 11;
  const double left = axis.pixel(span.begin);
  const double width = std::max(1.0, axis.pixel(span.end) - left);
  const std::string& name = span.label.empty() ? span.category : span.label;
  canvas.raw("<g><title>" + escaped(fmt::format("{}: {:.3f} to {:.3f} {}", name, span.begin, span.end, x_label)) +
             "</title>\n");
  canvas.rect(left, y, width, height, colour,
              fmt::format(" rx=\"{:.1f}\" stroke=\"{}\"", std::min(3.0, width / 3), kBackground));
  if (text_width(span.label, kLabelSize) + 6 < width) {
    canvas.text(left + width / 2, y + height / 2 + 4, kLabelSize, "#ffffff", "middle", span.label);
  }
  canvas.raw("</g>\n");
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  // Extents and legend.
  Extent xs;
  Extent ys;
  if (chart.starts_at_zero) ys.include(0);
  std::vector<LegendEntry> legend;
  std::vector<std::string> colours;
  for (const LineSeries& series : chart.series) {
    if (series.x.size() != series.y.size()) throw std::invalid_argument("LineSeries: x and y differ in length");
    for (const double x : series.x) xs.include(x);
    for (const double y : series.y) ys.include(y);
    colours.push_back(series.colour.empty() ? palette_colour(colours.size()) : series.colour);
    if (!series.name.empty()) legend.push_back({series.name, colours.back(), opacity_of(series)});
  }

  // Axes and grid.
  Canvas canvas;
  const double top = canvas.header(chart.title, chart.subtitle, legend);
  const double bottom = chart.height - kMargin - (chart.x_label.empty() ? 16 : 36);
  const double left = kMargin + (chart.y_label.empty() ? 36 : 56);
  const double right = chart.width - kMargin - 8;
  const Axis x_axis = make_axis(xs, left, right, 8, false);
  const Axis y_axis = make_axis(ys, bottom, top, 5, true);
  for (const double tick : y_axis.ticks()) {
    canvas.line(left, y_axis.pixel(tick), right, y_axis.pixel(tick), kGrid);
    canvas.text(left - 8, y_axis.pixel(tick) + 4, 11.5, kQuietText, "end", y_axis.tick_text(tick));
  }
  for (const double tick : x_axis.ticks()) {
    canvas.line(x_axis.pixel(tick), bottom, x_axis.pixel(tick), bottom + 5, kQuietText);
    canvas.text(x_axis.pixel(tick), bottom + 19, 11.5, kQuietText, "middle", x_axis.tick_text(tick));
  }
  canvas.line(left, bottom, right, bottom, kQuietText);
  canvas.text((left + right) / 2, chart.height - kMargin + 4, 12.5, kText, "middle", chart.x_label);
  const double label_y = (top + bottom) / 2;
  canvas.text(kMargin + 4, label_y, 12.5, kText, "middle", chart.y_label,
              fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", kMargin + 4, label_y));

  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const LineSeries& series = chart.series[i];
    canvas.raw(fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" "
        "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n",
        curve_path(series, x_axis, y_axis), escaped(colours[i]), series.is_background ? 1 : 2.2, opacity_of(series)));
  }
  return canvas.document(chart.width, chart.height, chart.title);
}

std::string to_svg(const TimelineChart& chart) {
  constexpr double kLaneHeight = 26;
  constexpr double kLaneGap = 6;
  constexpr double kPanelTitle = 26;

  // One colour for each category, in order of appearance.
  Extent times;
  times.include(0);
  double widest_lane_name = 0;
  std::vector<LegendEntry> legend;
  std::map<std::string, std::string> colour_of;
  for (const TimelinePanel& panel : chart.panels) {
    for (const std::string& lane : panel.lanes) widest_lane_name = std::max(widest_lane_name, text_width(lane, 12.5));
    for (const TimelineSpan& span : panel.spans) {
      if (span.lane >= panel.lanes.size()) throw std::invalid_argument("TimelineSpan.lane: no such lane in its panel");
      times.include(span.begin);
      times.include(span.end);
      if (colour_of.try_emplace(span.category, palette_colour(legend.size())).second) {
        legend.push_back({span.category, colour_of[span.category], 1});
      }
    }
  }

  Canvas canvas;
  double y = canvas.header(chart.title, chart.subtitle, legend);
  const double left = kMargin + 14 + widest_lane_name;
  const Axis axis = make_axis(times, left, chart.width - kMargin - 12, 9, false);
  for (const TimelinePanel& panel : chart.panels) {
    if (!panel.title.empty()) {
      canvas.text(kMargin, y + 12, 13, kText, "start", panel.title, " font-weight=\"600\"");
      y += kPanelTitle;
    }
    const double lanes_height = static_cast<double>(panel.lanes.size()) * (kLaneHeight + kLaneGap);
    for (std::size_t lane = 0; lane < panel.lanes.size(); ++lane) {
      const double lane_y = y + static_cast<double>(lane) * (kLaneHeight + kLaneGap);
      canvas.rect(axis.first, lane_y, axis.last - axis.first, kLaneHeight, kLane);
      canvas.text(left - 10, lane_y + kLaneHeight / 2 + 4, 12.5, kText, "end", panel.lanes[lane]);
    }
    for (const double tick : axis.ticks()) {
      canvas.line(axis.pixel(tick), y, axis.pixel(tick), y + lanes_height - kLaneGap, kFrame);
    }
    for (const TimelineSpan& span : panel.spans) {
      const double lane_y = y + static_cast<double>(span.lane) * (kLaneHeight + kLaneGap);
      draw_span(canvas, span, axis, lane_y + 2, kLaneHeight - 4, colour_of[span.category], chart.x_label);
    }
    y += lanes_height + 8;
  }
  for (const double tick : axis.ticks()) {
    canvas.text(axis.pixel(tick), y + 8, 11.5, kQuietText, "middle", axis.tick_text(tick));
  }
  canvas.text((axis.first + axis.last) / 2, y + 28, 12.5, kText, "middle", chart.x_label);
  return canvas.document(chart.width, y + 28 + kMargin - 6, chart.title);
}

void write_text_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

std::vector<double> moving_average(const std::vector<double>& values, std::size_t window) {
  std::vector<double> result;
  result.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i + 1 > window ? i + 1 - std::max<std::size_t>(window, 1) : 0;
    double sum = 0;
    for (std::size_t j = begin; j <= i; ++j) sum += values[j];
    result.push_back(sum / static_cast<double>(i + 1 - begin));
  }
  return result;
}

}  // namespace fmhax::sample
