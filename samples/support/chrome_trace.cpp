#include "chrome_trace.hpp"

#include <cstddef>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace fmhax::sample {
namespace {

nlohmann::json metadata_event(const char* what, std::size_t pid, std::size_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_chrome_trace(const std::vector<TimelinePanel>& panels) {
  constexpr double kMicrosecondsPerMillisecond = 1000;
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t pid = 0; pid < panels.size(); ++pid) {
    const TimelinePanel& panel = panels[pid];
    events.push_back(metadata_event("process_name", pid, 0, panel.title));
    for (std::size_t tid = 0; tid < panel.lanes.size(); ++tid) {
      events.push_back(metadata_event("thread_name", pid, tid, panel.lanes[tid]));
    }
    for (const TimelineSpan& span : panel.spans) {
      if (span.lane >= panel.lanes.size()) throw std::invalid_argument("TimelineSpan.lane: no such lane in its panel");
      events.push_back({{"ph", "X"},
                        {"name", span.label.empty() ? span.category : span.label},
                        {"cat", span.category},
                        {"pid", pid},
                        {"tid", span.lane},
                        {"ts", span.begin * kMicrosecondsPerMillisecond},
                        {"dur", (span.end - span.begin) * kMicrosecondsPerMillisecond}});
    }
  }
  const nlohmann::json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
  return trace.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace fmhax::sample
