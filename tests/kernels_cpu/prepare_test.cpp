// The kernel that prepares a workspace against pack_workspace_host(), for specs that no CPU entry has.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "bodies.hpp"
#include "fmhax/workspace.hpp"

namespace fmhax::cpu::test {
namespace {

struct RandomCall {
  Problem problem;
  WorkspaceSpec spec;
  std::vector<std::int32_t> seqstart_q{0}, seqstart_k{0};
};

RandomCall random_call(std::minstd_rand& random) {
  RandomCall call;
  const auto below = [&random](std::uint32_t count) { return static_cast<std::int32_t>(random() % count); };
  Problem& p = call.problem;
  p.is_group_mode = true;
  p.batch = below(50);
  p.nhead_q = p.nhead_k = 2;
  p.hdim_q = p.hdim_v = 8;
  const std::uint32_t longest_q = below(2) != 0 ? 4 : 300;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    call.seqstart_q.push_back(call.seqstart_q.back() + below(longest_q + 1));
    call.seqstart_k.push_back(call.seqstart_k.back() + below(301));
  }
  p.max_seqlen_q = longest_q;
  p.max_seqlen_k = 300;
  p.total_q = call.seqstart_q.back() + below(10);
  p.total_k = call.seqstart_k.back() + below(10);
  if (below(10) == 0 && p.batch > 0) call.seqstart_k.back() += 1000;  // refused
  call.spec.kN0 = 1 + below(100);
  call.spec.is_group_mode = true;
  call.spec.is_deterministic = p.is_deterministic = below(2) != 0;
  call.spec.has_tile_list = below(4) != 0;
  call.spec.max_splits = call.spec.is_deterministic ? below(6) : 0;
  return call;
}

std::vector<std::int64_t> prepared_bytes(const RandomCall& call, std::uint32_t blocks, std::int64_t dq_acc_bytes) {
  const std::int64_t metadata = workspace_host_size(call.spec, call.problem.batch);
  std::vector<std::int64_t> memory(static_cast<std::size_t>(metadata) / sizeof(std::int64_t), -1);
  KernelParams params;
  params.problem = call.problem;
  params.lengths.seqstart_q = call.seqstart_q.data();
  params.lengths.seqstart_k = call.seqstart_k.data();
  params.metadata = memory.data();
  params.dq_acc_bytes = dq_acc_bytes;
  for (std::uint32_t block = 0; block < blocks; ++block) prepare(params, call.spec, {block, blocks});
  return memory;
}

}  // namespace

TEST_CASE("prepare writes what pack_workspace_host() writes, with tile lists and bounded splits, from any blocks") {
  std::minstd_rand random(11);
  std::int64_t refused = 0;
  for (int round = 0; round < 500; ++round) {
    const RandomCall call = random_call(random);
    const std::int64_t metadata = workspace_host_size(call.spec, call.problem.batch);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(metadata) / sizeof(std::int64_t), -1);
    const std::int64_t room = random() % 4 == 0 ? 10'000 : workspace_size(call.spec, call.problem) - metadata;
    SequenceLengths lengths;
    lengths.seqstart_q = call.seqstart_q.data();
    lengths.seqstart_k = call.seqstart_k.data();
    const PackResult packed = pack_workspace_host(call.spec, call.problem, lengths, expected.data(), room);
    refused += packed.status.code != StatusCode::ok ? 1 : 0;
    CHECK(prepared_bytes(call, 1 + static_cast<std::uint32_t>(random() % 4), room) == expected);
  }
  CHECK(refused > 20);
  CHECK(refused < 400);
}

TEST_CASE("prepare writes what pack_workspace_host() writes for more sequences than a tile list sorts") {
  RandomCall call;
  call.problem.is_group_mode = call.spec.is_group_mode = call.spec.has_tile_list = true;
  call.problem.batch = 3000;
  call.problem.nhead_q = call.problem.nhead_k = 1;
  call.problem.hdim_q = call.problem.hdim_v = 8;
  call.problem.max_seqlen_q = call.problem.max_seqlen_k = 5;
  call.problem.total_q = call.problem.total_k = 15'000;
  call.spec.kN0 = 2;
  for (std::int32_t i = 0; i < 3000; ++i) {
    call.seqstart_q.push_back(call.seqstart_q.back() + i % 6);
    call.seqstart_k.push_back(call.seqstart_k.back() + i % 5);
  }
  std::vector<std::int64_t> expected(static_cast<std::size_t>(workspace_host_size(call.spec, 3000)) / 8, -1);
  REQUIRE(pack_workspace_host(call.spec, call.problem, call.seqstart_q.data(), call.seqstart_k.data(), expected.data())
              .status.code == StatusCode::ok);
  CHECK(prepared_bytes(call, 3, workspace_size(call.spec, call.problem)) == expected);
}

}  // namespace fmhax::cpu::test
