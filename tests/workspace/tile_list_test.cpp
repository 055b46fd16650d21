#include "fmhax/contract/tile_list.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/workspace.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

std::vector<std::int32_t> random_lengths(std::minstd_rand& random, std::size_t count, std::uint32_t longest) {
  std::vector<std::int32_t> lengths(count);
  for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(random() % (longest + 1));
  return lengths;
}

/// A tile list as a kernel reads it, out of packed metadata.
struct TileList {
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> sequences;
};

TileList packed_list(const WorkspaceSpec& spec, const Problem& problem, const std::vector<std::int32_t>& q,
                     const std::vector<std::int32_t>& k) {
  std::vector<std::int64_t> memory(static_cast<std::size_t>(workspace_host_size(spec, problem.batch)) / 8, -1);
  const PackResult result = pack_workspace_host(spec, problem, q.data(), k.data(), memory.data());
  REQUIRE(result.status.code == StatusCode::ok);
  const auto* base = reinterpret_cast<const unsigned char*>(memory.data());
  const auto* tile_starts = reinterpret_cast<const std::int32_t*>(base + tile_starts_position(spec, problem.batch));
  const auto* sequences = reinterpret_cast<const std::int32_t*>(base + tile_sequences_position(spec, problem.batch));
  return {{tile_starts, tile_starts + problem.batch + 1}, {sequences, sequences + problem.batch}};
}

}  // namespace

TEST_CASE("a tile list names every sequence once, by falling rows, and counts its jobs") {
  std::minstd_rand random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + random() % 40;
    const auto lengths_q = random_lengths(random, count, round % 2 == 0 ? 6 : 200);
    const auto lengths_k = random_lengths(random, count, 200);
    const Problem problem = group_problem(lengths_q, lengths_k, 1, 8);
    WorkspaceSpec spec = spec_for(problem, round % 3 == 0, 1 + static_cast<std::int64_t>(random() % 70));
    spec.has_tile_list = true;
    spec.max_splits = spec.is_deterministic ? static_cast<std::int64_t>(random() % 4) : 0;
    const TileList list = packed_list(spec, problem, starts(lengths_q), starts(lengths_k));
    std::vector<bool> seen(count, false);
    CHECK(list.starts[0] == 0);
    for (std::size_t place = 0; place < count; ++place) {
      const auto sequence = static_cast<std::size_t>(list.sequences[place]);
      CHECK_FALSE(seen[sequence]);
      seen[sequence] = true;
      if (place > 0) {
        const auto before = static_cast<std::size_t>(list.sequences[place - 1]);
        const bool is_ordered =
            lengths_q[before] > lengths_q[sequence] || (lengths_q[before] == lengths_q[sequence] && before < sequence);
        CHECK(is_ordered);
      }
      const std::int64_t jobs = spec.is_deterministic ? split_count(spec, problem, lengths_k[sequence])
                                                      : (lengths_k[sequence] + spec.kN0 - 1) / spec.kN0;
      CHECK(list.starts[place + 1] - list.starts[place] == jobs);
    }
    CHECK(list.starts[count] <= tile_list_bound(spec, problem));
  }
}

TEST_CASE("more sequences than are sorted stand in their own order") {
  for (const std::int64_t count : {kMaxSortedBatch, kMaxSortedBatch + 1}) {
    std::vector<std::int32_t> lengths_q(static_cast<std::size_t>(count), 1);
    lengths_q.back() = 2;
    const std::vector<std::int32_t> lengths_k(static_cast<std::size_t>(count), 3);
    const Problem problem = group_problem(lengths_q, lengths_k, 1, 8);
    WorkspaceSpec spec = spec_for(problem, false, 2);
    spec.has_tile_list = true;
    const TileList list = packed_list(spec, problem, starts(lengths_q), starts(lengths_k));
    const bool is_sorted = count <= kMaxSortedBatch;
    CHECK(list.sequences[0] == (is_sorted ? count - 1 : 0));
    CHECK(list.sequences[1] == (is_sorted ? 0 : 1));
    CHECK(list.starts.back() == 2 * count);
  }
}

TEST_CASE("find_tile finds the place of every job, past sequences without jobs") {
  const std::vector<std::int32_t> tile_starts{0, 0, 3, 3, 3, 4, 9, 9};
  const std::int64_t batch = 7;
  for (std::int32_t job = 0; job < 9; ++job) {
    const auto place = static_cast<std::size_t>(find_tile(tile_starts.data(), batch, job));
    CHECK(tile_starts[place] <= job);
    CHECK(job < tile_starts[place + 1]);
  }
  const std::vector<std::int32_t> one{0, 5};
  CHECK(find_tile(one.data(), 1, 4) == 0);
}

TEST_CASE("the bound on jobs is reached and never exceeded") {
  for (const std::int64_t kN0 : {1, 2, 3}) {
    for (const std::int64_t max_splits : {0, 1, 2}) {
      for (std::int64_t batch = 0; batch <= 3; ++batch) {
        for (std::int64_t total = 0; total <= 9; ++total) {
          for (std::int64_t longest = 0; longest <= 7; ++longest) {
            Problem problem = batch_problem(batch, 1, longest, 8);
            problem.is_group_mode = true;
            problem.total_q = problem.total_k = total;
            WorkspaceSpec spec = spec_for(problem, max_splits > 0, kN0);
            spec.has_tile_list = true;
            spec.max_splits = max_splits;
            std::int64_t most = 0;
            for (std::int64_t a = 0; a <= (batch > 0 ? longest : 0); ++a) {
              for (std::int64_t b = 0; b <= (batch > 1 ? longest : 0); ++b) {
                for (std::int64_t c = 0; c <= (batch > 2 ? longest : 0); ++c) {
                  if (a + b + c > total) continue;
                  const auto jobs = [&](std::int64_t length) { return sequence_jobs(spec, problem, length); };
                  most = std::max(most, jobs(a) + jobs(b) + jobs(c));
                }
              }
            }
            CAPTURE(kN0);
            CAPTURE(max_splits);
            CAPTURE(batch);
            CAPTURE(total);
            CAPTURE(longest);
            CHECK(tile_list_bound(spec, problem) == most);
          }
        }
      }
    }
  }
}

TEST_CASE("the bound on jobs does not overflow for the largest capacities") {
  constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
  Problem problem = batch_problem(kMany, 1, kMany, 8);
  problem.is_group_mode = true;
  problem.total_q = problem.total_k = kMany;
  WorkspaceSpec spec = spec_for(problem, false, 128);
  spec.has_tile_list = true;
  CHECK(tile_list_bound(spec, problem) == kMany);
  problem.batch = 70'000;
  CHECK(tile_list_bound(spec, problem) == 70'000 + (kMany - 70'000) / 128);
}

TEST_CASE("bounded splits cover all key tiles in order, none is empty, and few enough") {
  for (std::int64_t tiles = 1; tiles <= 70; ++tiles) {
    for (std::int64_t max_splits = 0; max_splits <= 75; ++max_splits) {
      const std::int64_t nsplits = bounded_splits(tiles, max_splits);
      CHECK(nsplits == (max_splits == 0 ? tiles : std::min(tiles, nsplits)));
      if (max_splits > 0) CHECK(nsplits <= max_splits);
      std::int64_t next = 0;
      std::int64_t most = 0;
      for (std::int64_t split = 0; split < nsplits; ++split) {
        const SplitRange range = split_range(tiles, nsplits, split);
        CHECK(range.begin == next);
        CHECK(range.end > range.begin);
        most = std::max(most, range.end - range.begin);
        next = range.end;
      }
      CHECK(next == tiles);
      if (max_splits > 0) CHECK(most == (tiles + max_splits - 1) / max_splits);
    }
  }
}

TEST_CASE("without a tile list and in batch mode the metadata are as they were") {
  const Problem group = group_problem({3, 4}, {5, 6}, 1, 8);
  WorkspaceSpec spec = spec_for(group, true);
  const std::int64_t without = workspace_host_size(spec, 2);
  spec.has_tile_list = true;
  CHECK(tile_starts_position(spec, 2) == without);
  CHECK(workspace_host_size(spec, 2) == without + 16 + 16);
  spec.writes_dq_directly = true;
  CHECK(workspace_host_size(spec, 2) == 0);
  WorkspaceSpec batch = spec_for(batch_problem(2, 1, 8, 8), false);
  batch.has_tile_list = true;
  CHECK(workspace_host_size(batch, 2) == 16);
}

TEST_CASE("the tile list of a spec without key tiles is refused") {
  const Problem problem = group_problem({4}, {8}, 1, 8);
  WorkspaceSpec spec = spec_for(problem, false, 0);
  CHECK_NOTHROW(workspace_size(spec, problem));
  spec.has_tile_list = true;
  CHECK_THROWS(workspace_size(spec, problem));
  spec = spec_for(problem, true, 4);
  spec.max_splits = -1;
  CHECK_THROWS(workspace_size(spec, problem));
}
