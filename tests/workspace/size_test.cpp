#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"
#include "fmhax/workspace.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <typename F>
ErrorCode code_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode{0};
}

}  // namespace

TEST_CASE("direct-dQ kernels need no workspace") {
  WorkspaceSpec spec;
  spec.writes_dq_directly = true;
  const Problem batch = batch_problem(2, 4, 100, 64);
  CHECK(workspace_host_size(spec, 2) == 0);
  CHECK(split_count(spec, batch, 100) == 0);
  CHECK(workspace_size(spec, batch) == 0);
  CHECK(rectangular_workspace_size(spec, batch) == 0);
  const Problem group = group_problem({3, 5}, {7, 9}, 4, 64);
  spec.is_group_mode = true;
  CHECK(workspace_size(spec, group) == 0);
  CHECK(workspace_size(spec, group, starts({3, 5}).data(), starts({7, 9}).data()) == 0);
}

TEST_CASE("atomic batch mode: 16 bytes of metadata and one accumulator") {
  const Problem problem = batch_problem(2, 4, 100, 64);
  const WorkspaceSpec spec = spec_for(problem, false);
  CHECK(workspace_host_size(spec, 2) == 16);
  CHECK(split_count(spec, problem, 100) == 1);
  CHECK(workspace_size(spec, problem) == 16 + 204800);  // 2 * 100 * 4 * 64 * 4
  CHECK(workspace_size(spec, problem, nullptr, nullptr) == 16 + 204800);
}

TEST_CASE("atomic group mode: metadata and total_q rows") {
  Problem problem = group_problem({100, 150, 50}, {10, 20, 30}, 4, 64);
  const WorkspaceSpec spec = spec_for(problem, false);
  CHECK(workspace_host_size(spec, 3) == 48);            // 4 -> 16, 4 * 8 = 32
  CHECK(workspace_size(spec, problem) == 48 + 307200);  // 300 * 4 * 64 * 4
  problem.total_q = 400;
  CHECK(workspace_size(spec, problem) == 48 + 409600);
  CHECK(workspace_size(spec, problem, starts({100, 150, 50}).data(), starts({10, 20, 30}).data()) == 48 + 307200);
}

TEST_CASE("the accumulator is aligned as the spec asks") {
  const Problem problem = group_problem({100, 150, 50}, {10, 20, 30}, 4, 64);
  WorkspaceSpec spec = spec_for(problem, false);
  spec.acc_alignment = 128;
  CHECK(workspace_host_size(spec, 3) == 128);  // 48, rounded up
  CHECK(workspace_size(spec, problem) == 128 + 307200);
  CHECK(workspace_host_size(spec, 20) == 256);  // 16 + 21 * 8 = 184, rounded up
}

TEST_CASE("deterministic group mode: ceil(seqlen_k / kN0) splits for each sequence") {
  const std::vector<std::int32_t> seqlens_q{5, 0, 130};
  const std::vector<std::int32_t> seqlens_k{7, 33, 200};
  const Problem problem = group_problem(seqlens_q, seqlens_k, 2, 32);
  const WorkspaceSpec spec = spec_for(problem, true);
  CHECK(workspace_host_size(spec, 3) == 48);  // 3 * 4 = 12 -> 16, 4 * 8 = 32
  CHECK(split_count(spec, problem, 0) == 0);
  CHECK(split_count(spec, problem, 1) == 1);
  CHECK(split_count(spec, problem, 64) == 1);
  CHECK(split_count(spec, problem, 65) == 2);
  // (5 * 1 + 0 * 1 + 130 * 4) rows * 2 * 32 * 4 = 525 * 256
  CHECK(workspace_size(spec, problem, starts(seqlens_q).data(), starts(seqlens_k).data()) == 48 + 134400);
}

TEST_CASE("sizes beyond 2^32 elements are exact, with more sequences and heads than 65 535") {
  const Problem tall = batch_problem(70'000, 2, 3'000, 128);
  CHECK(workspace_size(spec_for(tall, false), tall) == 16 + std::int64_t{70'000} * 3'000 * 2 * 128 * 4);
  const Problem wide = batch_problem(1, 70'000, 3'000, 128);
  CHECK(workspace_size(spec_for(wide, true), wide) == 16 + std::int64_t{70'000} * 3'000 * 47 * 128 * 4);
  Problem packed = batch_problem(70'000, 64, 1 << 20, 256);
  packed.is_group_mode = true;
  packed.total_q = packed.total_k = 1 << 30;
  const std::int64_t metadata = 16 + (70'001 * 8 + 8);
  CHECK(workspace_size(spec_for(packed, false), packed) == metadata + (std::int64_t{1} << 30) * 64 * 256 * 4);
}

TEST_CASE("logical lengths change no size and are not asked for") {
  Problem p = group_problem({3, 200, 0}, {70, 64, 5}, 2, 8);
  const WorkspaceSpec spec = spec_for(p, true);
  const std::int64_t bytes = workspace_size(spec, p, starts({3, 200, 0}).data(), starts({70, 64, 5}).data());
  for (const LogicalLengths kind : {LogicalLengths::per_sequence, LogicalLengths::cumulative}) {
    p.logical_lengths = kind;
    CHECK(workspace_size(spec, p, starts({3, 200, 0}).data(), starts({70, 64, 5}).data()) == bytes);
  }
}

TEST_CASE("very different lengths take a sixth of the rectangular layout") {
  const std::vector<std::int32_t> seqlens{2048, 512, 512, 128, 64, 1, 0};
  const Problem problem = group_problem(seqlens, seqlens, 16, 128);
  const WorkspaceSpec spec = spec_for(problem, true);
  // rows * splits: 2048 * 32 + 512 * 8 + 512 * 8 + 128 * 2 + 64 + 1 = 74049; * 16 * 128 * 4; metadata 32 + 64
  CHECK(workspace_size(spec, problem, starts(seqlens).data(), starts(seqlens).data()) == 96 + 606609408);
  CHECK(rectangular_workspace_size(spec, problem) == 3758096384);  // 7 * 2048 * 32 * 16 * 128 * 4
}

TEST_CASE("deterministic batch mode without persistence: a split for each key tile") {
  const Problem problem = batch_problem(2, 4, 100, 64);
  const WorkspaceSpec spec = spec_for(problem, true);
  CHECK(split_count(spec, problem, 100) == 2);
  CHECK(workspace_size(spec, problem) == 16 + 409600);
}

TEST_CASE("persistent: splits by the number of workers") {
  const Problem problem = batch_problem(4, 32, 2048, 128);
  // jobs_per_head 32, jobs 4096.
  SUBCASE("120 workers: jobs_per_worker 35, neither divides: 1 + ceil(31 / 35) = 2") {
    CHECK(split_count(persistent_spec(120), problem, 2048) == 2);
    CHECK(workspace_host_size(persistent_spec(120), 4) == 16);
    CHECK(workspace_size(persistent_spec(120), problem) == 16 + 268435456);  // 4 * 32 * 2 * 2048 * 128 * 4
  }
  SUBCASE("512 workers: jobs_per_worker 8 divides 32: 4") {
    CHECK(split_count(persistent_spec(512), problem, 2048) == 4);
  }
  SUBCASE("64 workers: jobs_per_worker 64 is a multiple of 32: 1") {
    CHECK(split_count(persistent_spec(64), problem, 2048) == 1);
  }
  SUBCASE("128 workers: one head each: 1") { CHECK(split_count(persistent_spec(128), problem, 2048) == 1); }
  SUBCASE("300 workers: jobs_per_worker 14: 1 + ceil(31 / 14) = 4") {
    CHECK(split_count(persistent_spec(300), problem, 2048) == 4);
  }
  SUBCASE("more workers than jobs: jobs_per_worker 1: a split for each tile") {
    CHECK(split_count(persistent_spec(5000), problem, 2048) == 32);
  }
}

TEST_CASE("persistent: jobs are counted over key heads, the accumulator has query heads") {
  Problem problem = batch_problem(4, 32, 2048, 128);
  problem.nhead_q = 64;
  CHECK(split_count(persistent_spec(120), problem, 2048) == 2);
  CHECK(workspace_size(persistent_spec(120), problem) == 16 + 2 * std::int64_t{268435456});
}

TEST_CASE("no worker's range of jobs touches more splits of a head than there are") {
  // Every dealing of heads of 1..12 tiles: a worker's part of a head writes to its own split.
  for (std::int64_t tiles = 1; tiles <= 12; ++tiles) {
    for (std::int64_t heads = 1; heads <= 6; ++heads) {
      const Problem problem = batch_problem(1, heads, tiles * 64, 8);
      for (std::int64_t workers = 1; workers <= tiles * heads + 2; ++workers) {
        const std::int64_t per_worker = (tiles * heads + workers - 1) / workers;
        std::int64_t most = 0;
        for (std::int64_t h = 0; h < heads; ++h) {
          const std::int64_t first_worker = h * tiles / per_worker;
          const std::int64_t last_worker = ((h + 1) * tiles - 1) / per_worker;
          most = most > last_worker - first_worker + 1 ? most : last_worker - first_worker + 1;
        }
        CAPTURE(tiles);
        CAPTURE(heads);
        CAPTURE(workers);
        CHECK(split_count(persistent_spec(workers), problem, tiles * 64) >= most);
      }
    }
  }
}

TEST_CASE("nothing to do needs no accumulator") {
  CHECK(workspace_size(persistent_spec(120), batch_problem(4, 32, 0, 128)) == 16);
  CHECK(split_count(persistent_spec(120), batch_problem(4, 32, 0, 128), 0) == 0);
  CHECK(workspace_size(persistent_spec(120), batch_problem(0, 32, 64, 128)) == 16);
  const Problem empty = group_problem({}, {}, 2, 8);
  CHECK(workspace_size(spec_for(empty, true), empty) == 16);
  CHECK(workspace_size(spec_for(empty, false), empty) == 32);
  CHECK(workspace_size(spec_for(empty, true), empty, starts({}).data(), starts({}).data()) == 16);
}

TEST_CASE("sizes beyond 2^32 elements are exact") {
  Problem problem = group_problem({1 << 20, 1 << 20}, {1 << 20, 1 << 20}, 128, 256);
  const WorkspaceSpec spec = spec_for(problem, true);
  const std::vector<std::int32_t> at = starts({1 << 20, 1 << 20});
  const std::int64_t expected = 48 + 2 * (std::int64_t{1} << 20) * (1 << 14) * 128 * 256 * 4;
  CHECK(workspace_host_size(spec, 2) == 48);
  CHECK(workspace_size(spec, problem, at.data(), at.data()) == expected);
  CHECK(workspace_size(spec, problem) == expected);
}

TEST_CASE("overflow is an error, also where the product would wrap to something small") {
  Problem problem = batch_problem(std::int64_t{1} << 32, 4, std::int64_t{1} << 32, 8);
  CHECK(code_of([&] { workspace_size(spec_for(problem, false), problem); }) == ErrorCode::overflow);
  CHECK(code_of([&] { rectangular_workspace_size(spec_for(problem, false), problem); }) == ErrorCode::overflow);
  problem = batch_problem(2, 4, kMax, 8);
  CHECK(code_of([&] { split_count(spec_for(problem, true, 1), problem, kMax); }) == ErrorCode::overflow);
  problem = batch_problem(std::int64_t{1} << 32, std::int64_t{1} << 31, 1 << 20, 8);
  CHECK(code_of([&] { split_count(persistent_spec(120), problem, 1 << 20); }) == ErrorCode::overflow);

  problem = group_problem({4}, {4}, 4, 8);
  problem.max_seqlen_q = problem.total_q = kMax / 2;
  problem.max_seqlen_k = problem.total_k = std::int64_t{1} << 30;
  CHECK(code_of([&] { workspace_size(spec_for(problem, false), problem); }) == ErrorCode::overflow);
  CHECK(code_of([&] { workspace_size(spec_for(problem, true), problem); }) == ErrorCode::overflow);

  WorkspaceSpec group;
  group.is_group_mode = true;
  for (const std::int64_t batch : {kMax, kMax - 1, kMax / 4, kMax / 8}) {
    CHECK(code_of([&] { workspace_host_size(group, batch); }) == ErrorCode::overflow);
  }
  CHECK(workspace_host_size(group, kMax / 16) > 0);
}

TEST_CASE("what can't be is refused with the field's name") {
  const Problem problem = group_problem({4}, {4}, 4, 8);
  const auto message = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::invalid_argument);
      return std::string(e.what());
    }
    return std::string();
  };
  const std::vector<std::int32_t> good{0, 4};
  const std::vector<std::int32_t> bad{0, 5};
  const WorkspaceSpec spec = spec_for(problem, true);
  CHECK(message([&] { workspace_host_size(spec, -1); }) == "batch is -1, but must be 0 or more");
  CHECK(message([&] { split_count(spec, problem, -2); }) == "seqlen_k is -2, but must be 0 or more");
  CHECK(message([&] { workspace_size(spec, problem, nullptr, good.data()); }) ==
        "seqstart_q is null, but must be int32[batch + 1] in group mode");
  CHECK(message([&] { workspace_size(spec, problem, good.data(), nullptr); }) ==
        "seqstart_k is null, but must be int32[batch + 1] in group mode");
  CHECK(message([&] { workspace_size(spec, problem, good.data(), bad.data()); }) ==
        "seqstart_k: sequence 0 of k ends beyond the token capacity: 5 > 4");
  CHECK(message([&] { workspace_size(spec_for(problem, true, 0), problem); }) == "spec.kN0 is 0, but must be positive");
  CHECK(message([&] { workspace_size(persistent_spec(0), batch_problem(1, 1, 1, 8)); }) ==
        "spec.workers is 0, but must be positive");
  CHECK(message([&] { workspace_size(persistent_spec(1), problem); }) ==
        "spec.is_group_mode is 0, but must be equal to problem.is_group_mode");
  WorkspaceSpec no_element = spec;
  no_element.acc_element_size = 0;
  CHECK(message([&] { workspace_size(no_element, problem); }) == "spec.acc_element_size is 0, but must be positive");
  for (const std::int64_t alignment : {0, -16, 24}) {
    WorkspaceSpec misaligned = spec;
    misaligned.acc_alignment = alignment;
    CHECK(message([&] { workspace_size(misaligned, problem); }) ==
          "spec.acc_alignment is " + std::to_string(alignment) + ", but must be a positive multiple of 16");
  }
  Problem negative = problem;
  negative.total_k = -3;
  CHECK(message([&] { workspace_size(spec, negative); }) == "problem.total_k is -3, but must be 0 or more");
}
