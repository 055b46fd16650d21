/// @file In which order a backward kernel's jobs run, and which block takes which: pure functions, shared by host and
/// device.
#pragma once

#include <cstdint>

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

/// Part `index` of `count`; no part at all where the index is not in [0, count).
struct Part {
  std::int64_t index = 0;
  std::int64_t count = 0;
};

/// What decides how many heads run side by side; all 0: one.
struct SectionLimits {
  std::int64_t cache_rows = 0;  ///< the query rows, of one key head's group, whose tensors the cache holds
  std::int64_t even_jobs = 0;   ///< jobs that differ in length and yet end together
};

/// How many heads run side by side: `together`, section after section, but `last` in the last one.
struct HeadSections {
  std::int64_t together = 1;
  std::int64_t last = 1;
};

/// Sections of `heads` heads with `tiles` jobs each that visit `rows` query rows: as many heads as the cache holds; in
/// the last section no fewer than the jobs that are still to come need to end together, of which `following` come after
/// these heads.
FMHAX_HOST_DEVICE constexpr HeadSections head_sections(const SectionLimits& limits, std::int64_t rows,
                                                       std::int64_t tiles, std::int64_t heads, std::int64_t following) {
  if (rows * heads <= limits.cache_rows) return {heads, heads};
  const std::int64_t fit = limits.cache_rows / rows;
  const std::int64_t together = fit > 1 ? fit : 1;
  const std::int64_t missing = limits.even_jobs - following;
  const std::int64_t even_out = missing > 0 && tiles > 0 ? (missing + tiles - 1) / tiles : 1;
  const std::int64_t last = together > even_out ? together : even_out;
  return {together, last < heads ? last : heads};
}

/// Where job `index` of `heads` heads with `tiles` jobs each lies.
struct JobPlace {
  std::int64_t head = 0;
  std::int64_t tile = 0;
};

/// Within a section all heads of a tile come before the next tile, as with a causal mask the first tiles are the
/// longest.
FMHAX_HOST_DEVICE constexpr JobPlace job_place(std::int64_t index, std::int64_t tiles, std::int64_t heads,
                                               const HeadSections& sections) {
  const std::int64_t end = heads - sections.last;
  std::int64_t first = end;
  std::int64_t here = sections.last;
  if (index < end * tiles) {
    first = index / (tiles * sections.together) * sections.together;
    here = end - first < sections.together ? end - first : sections.together;
  }
  const std::int64_t within = index - first * tiles;
  const std::int64_t tile = within / here;
  return {first + within - tile * here, tile};
}

/// A block's jobs: first, first + side_by_side, ... below end; none where first >= end.
struct BlockShare {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// The share of one of `blocks` blocks, of which `side_by_side` run at once and start in order. Jobs begin nearly in
/// their order too: each side_by_side jobs are a round, and successive blocks take successive rounds. Where there are
/// more jobs than blocks, `blocks` is a multiple of side_by_side.
FMHAX_HOST_DEVICE constexpr BlockShare block_share(std::int64_t block, std::int64_t blocks, std::int64_t side_by_side,
                                                   std::int64_t jobs) {
  if (jobs <= blocks) return {block, block < jobs ? block + 1 : jobs};
  const std::int64_t waves = blocks / side_by_side;
  const std::int64_t rounds = (jobs + side_by_side - 1) / side_by_side;
  const std::int64_t wave = block / side_by_side;
  const std::int64_t first = (wave * rounds + waves - 1) / waves;
  const std::int64_t end = ((wave + 1) * rounds + waves - 1) / waves * side_by_side;
  return {first * side_by_side + block - wave * side_by_side, end < jobs ? end : jobs};
}

/// The part of the rows behind the last sequence that is cleared along with job `index`, or by block `index` where
/// there are fewer jobs than blocks. The first jobs are the longest and decide when a small call ends, so they clear
/// nothing; where jobs are few, multiprocessors without work help.
FMHAX_HOST_DEVICE constexpr Part tail_part(std::int64_t index, std::int64_t blocks, std::int64_t side_by_side,
                                           std::int64_t jobs) {
  constexpr std::int64_t kFewRounds = 4;
  const std::int64_t few = kFewRounds * side_by_side < blocks ? kFewRounds * side_by_side : blocks;
  const std::int64_t end = jobs > few ? jobs : few;
  const std::int64_t first = end >= 2 * side_by_side ? side_by_side : 0;
  return {index - first, end - first};
}

}  // namespace fmhax::portable
