#include "geometry.hpp"

#include <algorithm>
#include <limits>

namespace fmhax::cpu {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 40;

std::int64_t capacity(const Problem& p, SequenceSide side) { return side == SequenceSide::q ? p.total_q : p.total_k; }

}  // namespace

std::int64_t slot_count(const Problem& p, SequenceSide side, std::int64_t tile_rows) noexcept {
  if (p.batch <= 0) return 0;
  if (p.is_group_mode) return capacity(p, side) / tile_rows + p.batch;
  return p.batch * ceil_div(side == SequenceSide::q ? p.max_seqlen_q : p.max_seqlen_k, tile_rows);
}

TileSlot find_slot(const Problem& p, const SequenceLengths& lengths, SequenceSide side, std::int64_t tile_rows,
                   std::int64_t slot) noexcept {
  if (!p.is_group_mode) return {slot % p.batch, slot / p.batch};
  const std::int32_t* starts = side == SequenceSide::q ? lengths.seqstart_q : lengths.seqstart_k;
  const std::int64_t total = capacity(p, side);
  const auto first_slot = [&](std::int64_t i) { return clamp_index(starts[i], 0, total) / tile_rows + i; };
  std::int64_t low = 0;  // the last sequence whose first slot is not beyond `slot`
  for (std::int64_t high = p.batch; high - low > 1;) {
    const std::int64_t middle = low + (high - low) / 2;
    (first_slot(middle) <= slot ? low : high) = middle;
  }
  return {low, std::max<std::int64_t>(slot - first_slot(low), 0)};
}

TileRows tile_rows_of(const SequenceRange& range, std::int64_t tile, std::int64_t tile_rows) noexcept {
  const std::int64_t begin = std::min(tile * tile_rows, range.physical);
  const std::int64_t end = std::min(begin + tile_rows, range.physical);
  const std::int64_t cut = clamp_index(range.logical, begin, end);
  return {{begin, cut}, {cut, end}};
}

TileVisibility tile_visibility(const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k, IndexRange rows,
                               IndexRange keys) noexcept {
  // Both ends of what a row sees never decrease from row to row.
  const IndexRange first = visible_keys(mask, seqlen_q, seqlen_k, rows.begin);
  const IndexRange last = visible_keys(mask, seqlen_q, seqlen_k, rows.end - 1);
  const std::int64_t begin = clamp_index(first.begin, keys.begin, keys.end) - keys.begin;
  const std::int64_t end = clamp_index(last.end, keys.begin, keys.end) - keys.begin;
  TileVisibility v{};
  v.key_begin = begin / kKeyAlignment * kKeyAlignment;
  v.key_end = std::max(end, v.key_begin);
  v.is_masked = last.begin > keys.begin + v.key_begin || first.end < keys.begin + v.key_end;
  constexpr std::int64_t kFar = std::numeric_limits<std::int32_t>::max() / 2;
  const std::int64_t diagonal = rows.begin + mask_offset(mask, seqlen_q, seqlen_k) - keys.begin;
  const std::int64_t visible_begin = mask.window_left >= 0 ? diagonal - mask.window_left : -kFar;
  const std::int64_t visible_end = mask.window_right >= 0 ? diagonal + mask.window_right + 1 : kFar;
  v.visible_begin = static_cast<std::int32_t>(clamp_index(visible_begin, -kFar, kFar));
  v.visible_end = static_cast<std::int32_t>(clamp_index(visible_end, -kFar, kFar));
  return v;
}

Mask bounded_mask(const Mask& mask) noexcept {
  return {mask.alignment, std::min(mask.window_left, kMostRows), std::min(mask.window_right, kMostRows)};
}

}  // namespace fmhax::cpu
