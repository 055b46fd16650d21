#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/workspace.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

using Starts = std::vector<std::int32_t>;

/// Calls `visit` with the starts of every list of `batch` lengths that sum to at most `total`.
void for_every_split(std::int32_t batch, std::int32_t total, const std::function<void(const Starts&)>& visit) {
  Starts starts{0};
  const std::function<void()> extend = [&] {
    if (static_cast<std::int32_t>(starts.size()) == batch + 1) return visit(starts);
    for (std::int32_t end = starts.back(); end <= total; ++end) {
      starts.push_back(end);
      extend();
      starts.pop_back();
    }
  };
  extend();
}

std::int32_t longest(const Starts& starts) {
  std::int32_t r = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) r = std::max(r, starts[i] - starts[i - 1]);
  return r;
}

/// The largest exact size for each capacity (total_q, total_k, max_seqlen_q, max_seqlen_k).
class Maxima {
 public:
  Maxima(std::int32_t total_q, std::int32_t total_k)
      : nq_(total_q + 1), nk_(total_k + 1), sizes_(static_cast<std::size_t>(nq_ * nk_ * nq_ * nk_)) {}

  std::int64_t& at(std::int64_t total_q, std::int64_t total_k, std::int64_t max_q, std::int64_t max_k) {
    return sizes_[static_cast<std::size_t>(((total_q * nk_ + total_k) * nq_ + max_q) * nk_ + max_k)];
  }
  /// From the sizes of lengths with just these totals and maxima to those of all lengths within them.
  void accumulate() {
    for_each([this](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      std::int64_t& size = at(a, b, c, d);
      if (a > 0) size = std::max(size, at(a - 1, b, c, d));
      if (b > 0) size = std::max(size, at(a, b - 1, c, d));
      if (c > 0) size = std::max(size, at(a, b, c - 1, d));
      if (d > 0) size = std::max(size, at(a, b, c, d - 1));
    });
  }
  template <typename F>
  void for_each(F&& f) {
    for (std::int64_t a = 0; a < nq_; ++a) {
      for (std::int64_t b = 0; b < nk_; ++b) {
        for (std::int64_t c = 0; c < nq_; ++c) {
          for (std::int64_t d = 0; d < nk_; ++d) f(a, b, c, d);
        }
      }
    }
  }

 private:
  std::int64_t nq_, nk_;
  std::vector<std::int64_t> sizes_;
};

Problem capacity(std::int64_t batch, std::int64_t total_q, std::int64_t total_k, std::int64_t max_q,
                 std::int64_t max_k) {
  Problem p = batch_problem(batch, 2, 0, 8);
  p.is_group_mode = true;
  p.total_q = total_q;
  p.total_k = total_k;
  p.max_seqlen_q = max_q;
  p.max_seqlen_k = max_k;
  return p;
}

/// Compares the bound with the exact size of every split of up to these totals, for every capacity.
void check_every_split(std::int32_t batch, std::int32_t total_q, std::int32_t total_k, std::int64_t tile_rows,
                       std::int64_t max_splits = 0) {
  const Problem whole = capacity(batch, total_q, total_k, total_q, total_k);
  WorkspaceSpec spec = spec_for(whole, true, tile_rows);
  spec.max_splits = max_splits;
  Maxima maxima(total_q, total_k);
  for_every_split(batch, total_q, [&](const Starts& q) {
    for_every_split(batch, total_k, [&](const Starts& k) {
      std::int64_t& size = maxima.at(q.back(), k.back(), longest(q), longest(k));
      size = std::max(size, workspace_size(spec, whole, q.data(), k.data()));
    });
  });
  maxima.accumulate();
  std::int64_t below = 0;
  std::int64_t above = 0;
  maxima.for_each([&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    const std::int64_t bound = workspace_size(spec, capacity(batch, a, b, c, d));
    below += bound < maxima.at(a, b, c, d) ? 1 : 0;
    above += bound > maxima.at(a, b, c, d) ? 1 : 0;
  });
  CAPTURE(batch);
  CAPTURE(tile_rows);
  CHECK(below == 0);
  CHECK(above == 0);  // tight: some split of every capacity attains it
}

}  // namespace

TEST_CASE("the deterministic group bound is the largest exact size of every split, for every small capacity") {
  for (const std::int64_t tile_rows : {1, 2, 3, 4, 64}) {
    for (std::int32_t batch = 0; batch <= 3; ++batch) check_every_split(batch, 6, 9, tile_rows);
    check_every_split(4, 5, 7, tile_rows);
  }
}

TEST_CASE("the deterministic group bound is the largest exact size also with many tiles") {
  for (const std::int64_t tile_rows : {5, 7, 16}) check_every_split(2, 5, 34, tile_rows);
}

TEST_CASE("the deterministic group bound is the largest exact size with bounded splits too") {
  for (const std::int64_t tile_rows : {1, 2}) {
    for (const std::int64_t max_splits : {1, 2, 3, 5}) {
      for (std::int32_t batch = 1; batch <= 3; ++batch) check_every_split(batch, 6, 9, tile_rows, max_splits);
    }
  }
}

TEST_CASE("the bound is far below total_q times the longest sequence's splits where the keys are few") {
  const Problem problem = capacity(64, 8192, 8192, 512, 8192);
  const WorkspaceSpec spec = spec_for(problem, true);
  // m = 16 sequences of 512 rows with one split each, and (8192 - 16) / 64 = 127 more for the first:
  // (16 + 127) * 512 rows * 2 * 8 * 4, against 8192 * 128.
  const std::int64_t metadata = 64 * 4 + 528;
  CHECK(workspace_host_size(spec, 64) == metadata);
  CHECK(workspace_size(spec, problem) == metadata + 143 * 512 * 64);
}

TEST_CASE("the atomic group bound holds for every split") {
  const Problem problem = capacity(3, 6, 4, 4, 3);
  const WorkspaceSpec spec = spec_for(problem, false);
  const std::int64_t bound = workspace_size(spec, problem);
  std::int64_t most = 0;
  for_every_split(3, 6, [&](const Starts& q) {
    if (longest(q) > 4) return;
    const std::vector<std::int32_t> k{0, 1, 2, 3};
    most = std::max(most, workspace_size(spec, problem, q.data(), k.data()));
  });
  CHECK(bound == most);
}
