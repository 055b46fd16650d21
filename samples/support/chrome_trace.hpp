/// @file Spans as a Chrome trace (JSON object format, "X" events), for chrome://tracing and ui.perfetto.dev.
/// Format: "Trace Event Format", Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <string>
#include <vector>

#include "svg.hpp"

namespace fmhax::sample {

/// One trace of several processes (the panels), each with one named thread for a lane. Times of the panels are in
/// milliseconds. Throws std::invalid_argument when a span names a lane that its panel lacks.
std::string to_chrome_trace(const std::vector<TimelinePanel>& panels);

}  // namespace fmhax::sample
