#include "geometry.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace fmhax::cpu::test {
namespace {

struct Slots {
  Problem problem{};
  std::vector<std::int32_t> starts{0};
  SequenceLengths lengths() const {
    SequenceLengths l;
    l.seqstart_q = l.seqstart_k = starts.data();
    return l;
  }
};

Slots random_slots(std::mt19937& generator) {
  const auto below = [&](int n) { return static_cast<std::int32_t>(generator() % static_cast<unsigned>(n)); };
  Slots s;
  s.problem.is_group_mode = true;
  s.problem.batch = below(12) + 1;
  for (std::int64_t i = 0; i < s.problem.batch; ++i) {
    const std::int32_t length = below(3) == 0 ? 0 : below(400);
    s.starts.push_back(s.starts.back() + length);
    s.problem.max_seqlen_k = std::max<std::int64_t>(s.problem.max_seqlen_k, length);
  }
  s.problem.total_k = s.starts.back() + below(200);
  return s;
}

}  // namespace

TEST_CASE("every tile of every sequence has exactly one slot") {
  std::mt19937 generator(11);
  for (int repeat = 0; repeat < 500; ++repeat) {
    const Slots s = random_slots(generator);
    std::map<std::pair<std::int64_t, std::int64_t>, int> uses;
    for (std::int64_t slot = 0; slot < slot_count(s.problem, SequenceSide::k, kN0); ++slot) {
      const TileSlot found = find_slot(s.problem, s.lengths(), SequenceSide::k, kN0, slot);
      ++uses[{found.sequence, found.tile}];
    }
    for (std::int64_t i = 0; i < s.problem.batch; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t tiles = ceil_div(s.starts[at + 1] - s.starts[at], kN0);
      for (std::int64_t tile = 0; tile < tiles; ++tile) CHECK(uses[{i, tile}] == 1);
    }
  }
}

TEST_CASE("slots of garbage stay within the batch") {
  std::mt19937 generator(12);
  for (int repeat = 0; repeat < 200; ++repeat) {
    Slots s = random_slots(generator);
    for (std::int32_t& start : s.starts) start = static_cast<std::int32_t>(generator());
    for (std::int64_t slot = 0; slot < slot_count(s.problem, SequenceSide::k, kN0); ++slot) {
      const TileSlot found = find_slot(s.problem, s.lengths(), SequenceSide::k, kN0, slot);
      CHECK(found.sequence >= 0);
      CHECK(found.sequence < s.problem.batch);
      CHECK(found.tile >= 0);
    }
  }
}

TEST_CASE("a tile's visibility is what the mask says of each pair") {
  std::mt19937 generator(13);
  const auto below = [&](int n) { return static_cast<std::int64_t>(generator() % static_cast<unsigned>(n)); };
  for (int repeat = 0; repeat < 3000; ++repeat) {
    const std::int64_t seqlen_q = below(200) + 1, seqlen_k = below(300) + 1;
    const auto alignment = below(2) == 0 ? MaskAlignment::top_left : MaskAlignment::bottom_right;
    const Mask mask = Mask::window(below(80) - 1, below(80) - 1, alignment);
    const std::int64_t tile = below(static_cast<int>(ceil_div(seqlen_k, kN0)));
    const IndexRange keys{tile * kN0, std::min(seqlen_k, (tile + 1) * kN0)};
    const IndexRange seeing = rows_seeing(mask, seqlen_q, seqlen_k, keys);
    if (seeing.empty()) continue;
    const std::int64_t first = seeing.begin + below(static_cast<int>(seeing.end - seeing.begin));
    const IndexRange rows{first, std::min(first + below(kM0) + 1, seeing.end)};
    const TileVisibility v = tile_visibility(mask, seqlen_q, seqlen_k, rows, keys);
    CHECK(v.key_begin % kKeyAlignment == 0);
    CHECK(v.key_end <= keys.end - keys.begin);
    bool is_right = true;
    bool sees_all = true;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const IndexRange want = visible_keys(mask, seqlen_q, seqlen_k, row);
      for (std::int64_t n = 0; n < keys.end - keys.begin; ++n) {
        const bool is_visible = keys.begin + n >= want.begin && keys.begin + n < want.end;
        const bool is_inside = n >= v.key_begin && n < v.key_end;
        const std::int64_t m = row - rows.begin;
        const bool got = is_inside && (!v.is_masked || (n >= m + v.visible_begin && n < m + v.visible_end));
        is_right = is_right && got == is_visible;
        sees_all = sees_all && (!is_inside || is_visible);
      }
    }
    CHECK(is_right);
    CHECK(v.is_masked == !sees_all);
  }
}

TEST_CASE("windows as wide as the type allows do not overflow") {
  constexpr std::int64_t kWidest = std::numeric_limits<std::int64_t>::max();
  const Mask mask = bounded_mask({MaskAlignment::bottom_right, kWidest, kWidest});
  const TileVisibility v = tile_visibility(mask, 64, 500, {0, 64}, {128, 256});
  CHECK(v.key_begin == 0);
  CHECK(v.key_end == 128);
  CHECK_FALSE(v.is_masked);
  CHECK(bounded_mask(Mask::none()).is_none());
}

}  // namespace fmhax::cpu::test
