/// @file What both charts are drawn with: axes with round ticks, and elements collected into one SVG document.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace fmhax::sample::svg {

inline constexpr const char* kBackground = "#ffffff";
inline constexpr const char* kFrame = "#d5dbe3";
inline constexpr const char* kGrid = "#e8ecf1";
inline constexpr const char* kLane = "#f4f6f9";
inline constexpr const char* kText = "#1f2937";
inline constexpr const char* kQuietText = "#5b6675";
inline constexpr double kMargin = 24;

/// Colours that differ from one another and from the background, also for most colour-blind readers.
std::string palette_colour(std::size_t i);

/// Text as XML character data; control characters, which XML 1.0 forbids, are dropped.
std::string escaped(std::string_view text);

/// About how wide a text comes out: the face is the reader's, so this is a guess.
double text_width(std::string_view text, double font_size);

/// Smallest and largest finite value seen.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value);
  /// Makes it [0, 1] when nothing was included.
  void settle();
};

/// An axis from `low` to `high`, mapped to pixels [first, last], with ticks at multiples of `step`, which is 1, 2 or 5
/// times a power of ten.
struct Axis {
  double low = 0;
  double high = 1;
  double first = 0;
  double last = 1;
  double step = 1;

  double pixel(double value) const { return first + (value - low) / (high - low) * (last - first); }
  std::vector<double> ticks() const;
  std::string tick_text(double value) const;
};

/// `widens`: the ends move outwards to multiples of the step.
Axis make_axis(Extent extent, double first, double last, double wanted_ticks, bool widens);

struct LegendEntry {
  std::string name;
  std::string colour;
  double opacity = 1;
};

/// Collects elements; y grows downwards. `more` is further attributes, starting with a space.
class Canvas {
 public:
  void rect(double x, double y, double w, double h, std::string_view fill, std::string_view more = {});
  void line(double x1, double y1, double x2, double y2, std::string_view colour);
  void text(double x, double y, double size, std::string_view fill, std::string_view anchor, std::string_view content,
            std::string_view more = {});
  void raw(std::string_view element) { body_ += element; }
  /// Title, subtitle and legend at the top; returns the y below them.
  double header(const std::string& title, const std::string& subtitle, const std::vector<LegendEntry>& legend);
  std::string document(double width, double height, const std::string& title) const;

 private:
  std::string body_;
};

}  // namespace fmhax::sample::svg
