#include "progress_bar.hpp"

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace fmhax::train {
namespace {

constexpr std::int64_t kCells = 24;
constexpr std::int64_t kLines = 20;  // of a run, where stderr is not a terminal
constexpr std::chrono::milliseconds kRedrawInterval{100};

}  // namespace

ProgressBar::ProgressBar() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(const Progress& progress) {
  const std::int64_t step = progress.latest.step;
  const bool is_done = step == progress.total_steps;
  const std::string text = fmt::format("{} step {:>4}/{}  loss {:.3f}  {:>6.0f} tokens/s  host {:>6.1f} us/step",
                                       to_string(progress.mode), step, progress.total_steps, progress.latest.loss,
                                       progress.tokens_per_second, progress.host_us_per_step);
  if (!is_terminal_) {
    if (step * kLines / progress.total_steps == lines_) return;
    lines_ = step * kLines / progress.total_steps;
    fmt::print(stderr, "{}\n", text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!is_done && now - redrawn_ < kRedrawInterval) return;
  redrawn_ = now;
  const auto cells = static_cast<std::size_t>(step * kCells / progress.total_steps);
  const std::string bar = std::string(cells, '#') + std::string(static_cast<std::size_t>(kCells) - cells, '.');
  fmt::print(stderr, "\r[{}] {}{}", bar, text, is_done ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace fmhax::train
