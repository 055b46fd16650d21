#include "svg_canvas.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace fmhax::sample::svg {
namespace {

double nice_step(double range, double wanted_ticks) {
  const double rough = range / wanted_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string palette_colour(std::size_t i) {
  static constexpr const char* kPalette[] = {"#2563eb", "#e8590c", "#2f9e44", "#9333ea", "#0e7490", "#be123c"};
  return kPalette[i % std::size(kPalette)];
}

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

double text_width(std::string_view text, double font_size) {
  constexpr double kGlyphWidth = 0.56;  // of the font size, on average, for common sans-serif faces
  return static_cast<double>(text.size()) * font_size * kGlyphWidth;
}

void Extent::include(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

void Extent::settle() {
  if (low > high) *this = {0, 1};
}

std::vector<double> Axis::ticks() const {
  constexpr int kMostTicks = 100;  // ends the loop where the step is lost beside the values
  std::vector<double> result;
  const double begin = std::ceil(low / step - 1e-9);
  for (int i = 0; i < kMostTicks; ++i) {
    const double tick = (begin + i) * step + 0.0;  // + 0.0: no negative zero
    if (!(tick <= high + step * 1e-9)) break;
    result.push_back(tick);
  }
  return result;
}

std::string Axis::tick_text(double value) const {
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, std::min(decimals, 9));
}

Axis make_axis(Extent extent, double first, double last, double wanted_ticks, bool widens) {
  extent.settle();
  if (!(extent.high > extent.low)) extent.high = extent.low + std::max(1.0, std::abs(extent.low) * 0.1);
  Axis axis{extent.low, extent.high, first, last, nice_step(extent.high - extent.low, wanted_ticks)};
  if (widens) {
    axis.low = std::floor(extent.low / axis.step + 1e-9) * axis.step;
    axis.high = std::ceil(extent.high / axis.step - 1e-9) * axis.step;
  }
  return axis;
}

void Canvas::rect(double x, double y, double w, double h, std::string_view fill, std::string_view more) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}/>\n", x, y, w,
                       h, escaped(fill), more);
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view colour) {
  body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                       y2, escaped(colour));
}

void Canvas::text(double x, double y, double size, std::string_view fill, std::string_view anchor,
                  std::string_view content, std::string_view more) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x,
                  y, size, escaped(fill), anchor, more, escaped(content));
}

double Canvas::header(const std::string& title, const std::string& subtitle, const std::vector<LegendEntry>& legend) {
  double y = kMargin;
  if (!title.empty()) text(kMargin, y += 12, 17, kText, "start", title, " font-weight=\"600\"");
  if (!subtitle.empty()) text(kMargin, y += 20, 12.5, kQuietText, "start", subtitle);
  if (!legend.empty()) {
    y += 22;
    double x = kMargin;
    for (const LegendEntry& entry : legend) {
      rect(x, y - 9, 12, 10, entry.colour, fmt::format(" rx=\"2\" fill-opacity=\"{}\"", entry.opacity));
      text(x + 18, y, 12.5, kText, "start", entry.name);
      x += 40 + text_width(entry.name, 12.5);
    }
  }
  return y + 18;
}

std::string Canvas::document(double width, double height, const std::string& title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "role=\"img\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n<title>{2}</title>\n"
      "<rect x=\"0.5\" y=\"0.5\" width=\"{3:.0f}\" height=\"{4:.0f}\" rx=\"8\" fill=\"{5}\" "
      "stroke=\"{6}\"/>\n{7}</svg>\n",
      width, height, escaped(title), width - 1, height - 1, kBackground, kFrame, body_);
}

}  // namespace fmhax::sample::svg
