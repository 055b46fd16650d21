/// @file What the host adds to a backward kernel's KernelParams.
#pragma once

#include <cstdint>

#include "job_order.hpp"

namespace fmhax::portable {

/// Rows and keys are counted in 32 bits, with room to add two counts.
inline constexpr std::int64_t kMaxSeqlen = std::int64_t{1} << 30;

struct BackwardArguments {
  std::int64_t jobs = 0;           ///< of all heads; group mode: the most that a call within the capacity has
  std::int64_t jobs_per_head = 0;  ///< batch mode: key tiles of a sequence, or its splits
  HeadSections sections{};         ///< batch mode: of (sequence, key head) pairs
  SectionLimits limits{};          ///< group mode: what gives each sequence's sections
  std::int64_t side_by_side = 1;   ///< blocks that run at once
  bool is_aligned = false;         ///< every row of every 16-bit tensor begins at a multiple of 16 bytes
};

}  // namespace fmhax::portable
