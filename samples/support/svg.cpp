#include "svg.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

namespace fmhax::sample {
namespace {

constexpr const char* kPalette[] = {"#2563eb", "#e8590c", "#2f9e44", "#9333ea", "#0e7490", "#be123c"};
constexpr const char* kBackground = "#ffffff";
constexpr const char* kFrame = "#d5dbe3";
constexpr const char* kGrid = "#e8ecf1";
constexpr const char* kText = "#1f2937";
constexpr const char* kQuietText = "#5b6675";
constexpr double kMargin = 24;
constexpr double kGlyphWidth = 0.55;  // of the font size, on average for the sans-serif faces asked for

std::string palette_colour(std::size_t i) { return kPalette[i % std::size(kPalette)]; }

/// Text as XML character data; characters that XML 1.0 forbids are dropped.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n') out += c;
    }
  }
  return out;
}

/// An axis from `low` to `high`, mapped to pixels [first, last], with ticks at multiples of 1, 2 or 5 times a power of
/// ten.
struct Axis {
  double low = 0;
  double high = 1;
  double first = 0;
  double last = 1;
  double step = 1;

  double pixel(double value) const { return first + (value - low) / (high - low) * (last - first); }

  std::vector<double> ticks() const {
    std::vector<double> result;
    const double begin = std::ceil(low / step - 1e-9);
    for (double i = begin; i * step <= high + step * 1e-9; ++i) result.push_back(i * step + 0.0);
    return result;
  }

  std::string tick_text(double value) const {
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    return fmt::format("{:.{}f}", value, std::min(decimals, 9));
  }
};

double nice_step(double range, double wanted_ticks) {
  const double rough = range / wanted_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Axis make_axis(double low, double high, double first, double last, double wanted_ticks, bool widen_to_ticks) {
  if (!(high > low)) high = low + std::max(1.0, std::abs(low) * 0.1);
  Axis axis{low, high, first, last, nice_step(high - low, wanted_ticks)};
  if (widen_to_ticks) {
    axis.low = std::floor(low / axis.step + 1e-9) * axis.step;
    axis.high = std::ceil(high / axis.step - 1e-9) * axis.step;
  }
  return axis;
}

/// Smallest and largest finite value of all; [0, 1] when there is none.
struct Extent {
  double low = INFINITY;
  double high = -INFINITY;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void settle() {
    if (low > high) *this = {0, 1};
  }
};

struct LegendEntry {
  std::string name;
  std::string colour;
};

/// Collects elements; y grows downwards.
class Canvas {
 public:
  void rect(double x, double y, double w, double h, const std::string& fill, const std::string& more = {}) {
    body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}/>\n", x, y,
                         w, h, fill, more);
  }
  void line(double x1, double y1, double x2, double y2, const std::string& colour) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                         y2, colour);
  }
  void text(double x, double y, double size, const std::string& fill, const char* anchor, std::string_view content,
            const std::string& more = {}) {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n",
                    x, y, size, fill, anchor, more, escaped(content));
  }
  void raw(const std::string& element) { body_ += element; }

  /// Title, subtitle and legend at the top; returns the y below them.
  double header(const std::string& title, const std::string& subtitle, const std::vector<LegendEntry>& legend) {
    double y = kMargin;
    if (!title.empty()) text(kMargin, y += 12, 17, kText, "start", title, " font-weight=\"600\"");
    if (!subtitle.empty()) text(kMargin, y += 20, 12.5, kQuietText, "start", subtitle);
    if (!legend.empty()) {
      y += 22;
      double x = kMargin;
      for (const LegendEntry& entry : legend) {
        rect(x, y - 9, 12, 10, entry.colour, " rx=\"2\"");
        text(x + 18, y, 12.5, kText, "start", entry.name);
        x += 40 + static_cast<double>(entry.name.size()) * 12.5 * kGlyphWidth;
      }
    }
    return y + 18;
  }

  std::string document(double width, double height, const std::string& title) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "role=\"img\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n<title>{2}</title>\n"
        "<rect x=\"0.5\" y=\"0.5\" width=\"{3:.0f}\" height=\"{4:.0f}\" rx=\"8\" fill=\"{5}\" "
        "stroke=\"{6}\"/>\n{7}</svg>\n",
        width, height, escaped(title), width - 1, height - 1, kBackground, kFrame, body_);
  }

 private:
  std::string body_;
};

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
  if (static_cast<double>(span.label.size()) * kLabelSize * kGlyphWidth + 6 < width) {
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
    if (!series.name.empty()) legend.push_back({series.name, colours.back()});
  }
  xs.settle();
  ys.settle();

  // Axes and grid.
  Canvas canvas;
  const double top = canvas.header(chart.title, chart.subtitle, legend);
  const double bottom = chart.height - kMargin - (chart.x_label.empty() ? 16 : 36);
  const double left = kMargin + (chart.y_label.empty() ? 36 : 56);
  const double right = chart.width - kMargin - 8;
  const Axis x_axis = make_axis(xs.low, xs.high, left, right, 8, false);
  const Axis y_axis = make_axis(ys.low, ys.high, bottom, top, 5, true);
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
    canvas.raw(
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" "
                    "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n",
                    curve_path(series, x_axis, y_axis), escaped(colours[i]), series.is_background ? 1 : 2.2,
                    series.is_background ? 0.35 : 1.0));
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
  std::size_t longest_lane_name = 0;
  std::vector<LegendEntry> legend;
  std::map<std::string, std::string> colour_of;
  for (const TimelinePanel& panel : chart.panels) {
    for (const std::string& lane : panel.lanes) longest_lane_name = std::max(longest_lane_name, lane.size());
    for (const TimelineSpan& span : panel.spans) {
      if (span.lane >= panel.lanes.size()) throw std::invalid_argument("TimelineSpan.lane: no such lane in its panel");
      times.include(span.begin);
      times.include(span.end);
      if (colour_of.try_emplace(span.category, palette_colour(legend.size())).second) {
        legend.push_back({span.category, colour_of[span.category]});
      }
    }
  }
  times.settle();

  Canvas canvas;
  double y = canvas.header(chart.title, chart.subtitle, legend);
  const double left = kMargin + 14 + static_cast<double>(longest_lane_name) * 12.5 * kGlyphWidth;
  const Axis axis = make_axis(times.low, times.high, left, chart.width - kMargin - 12, 9, false);
  for (const TimelinePanel& panel : chart.panels) {
    if (!panel.title.empty()) {
      canvas.text(kMargin, y + 12, 13, kText, "start", panel.title, " font-weight=\"600\"");
      y += kPanelTitle;
    }
    const double lanes_height = static_cast<double>(panel.lanes.size()) * (kLaneHeight + kLaneGap);
    for (std::size_t lane = 0; lane < panel.lanes.size(); ++lane) {
      const double lane_y = y + static_cast<double>(lane) * (kLaneHeight + kLaneGap);
      canvas.rect(axis.first, lane_y, axis.last - axis.first, kLaneHeight, "#f4f6f9");
      canvas.text(left - 10, lane_y + kLaneHeight / 2 + 4, 12.5, kText, "end", panel.lanes[lane]);
    }
    for (const double tick : axis.ticks())
      canvas.line(axis.pixel(tick), y, axis.pixel(tick), y + lanes_height - kLaneGap, kFrame);
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
