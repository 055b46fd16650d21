/// @file Progress on stderr: a bar that is redrawn on a terminal, else a line now and then.
#pragma once

#include <chrono>
#include <cstdint>

#include "trainer.hpp"

namespace fmhax::train {

class ProgressBar {
 public:
  ProgressBar();
  void show(const Progress& progress);

 private:
  bool is_terminal_;
  std::chrono::steady_clock::time_point redrawn_{};
  std::int64_t lines_ = 0;
};

}  // namespace fmhax::train
