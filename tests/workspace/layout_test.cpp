#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/workspace.hpp"
#include "sample_problems.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

constexpr std::size_t kGuard = 32;
constexpr unsigned char kPoison = 0xa5;

/// Metadata packed into poisoned memory, and the guard behind it.
struct Packed {
  PackResult result;
  std::vector<unsigned char> bytes;
  bool guard_is_intact = false;
};

Packed pack(const WorkspaceSpec& spec, const Problem& problem, const SequenceLengths& lengths,
            std::int64_t capacity = -1) {
  Packed r;
  const auto size = static_cast<std::size_t>(workspace_host_size(spec, problem.batch));
  r.bytes.assign(size + kGuard, kPoison);
  r.result = pack_workspace_host(spec, problem, lengths, r.bytes.data(), capacity);
  r.guard_is_intact = std::all_of(r.bytes.end() - kGuard, r.bytes.end(), [](unsigned char b) { return b == kPoison; });
  r.bytes.resize(size);
  return r;
}

SequenceLengths lengths_of(const std::vector<std::int32_t>& q, const std::vector<std::int32_t>& k) {
  SequenceLengths r;
  r.seqstart_q = q.data();
  r.seqstart_k = k.data();
  return r;
}

/// nsplits[0] = kInvalidCall and nothing else.
bool says_invalid_call(const std::vector<unsigned char>& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 4, [](unsigned char b) { return b == 0xff; }) &&
         std::all_of(bytes.begin() + 4, bytes.end(), [](unsigned char b) { return b == 0; });
}

}  // namespace

TEST_CASE("the metadata of a deterministic group call are these bytes") {
  const std::vector<std::int32_t> q = starts({3, 301});
  const std::vector<std::int32_t> k = starts({5, 700});
  const Problem problem = group_problem({3, 301}, {5, 700}, 16, 64);
  const Packed packed = pack(spec_for(problem, true, 4), problem, lengths_of(q, k));
  const std::vector<unsigned char> golden{
      0x02, 0x00, 0x00, 0x00, 0xaf, 0x00, 0x00, 0x00,  // nsplits: ceil(5 / 4) = 2, ceil(700 / 4) = 175
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // dq_acc_offsets[0] = 0
      0x00, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [1] = 16 * 2 * 3 * 64 = 6144
      0x00, 0x24, 0x37, 0x03, 0x00, 0x00, 0x00, 0x00,  // [2] = 6144 + 16 * 175 * 301 * 64 = 53945344
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
  };
  CHECK(packed.bytes == golden);
  CHECK(packed.guard_is_intact);
  CHECK(packed.result.status.code == StatusCode::ok);
  CHECK(packed.result.dq_acc_bytes == 53945344 * 4);
}

TEST_CASE("the metadata of an atomic group call are these bytes") {
  const std::vector<std::int32_t> q = starts({3, 0, 2});
  const std::vector<std::int32_t> k = starts({5, 1, 0});
  const Problem problem = group_problem({3, 0, 2}, {5, 1, 0}, 2, 8);
  const Packed packed = pack(spec_for(problem, false), problem, lengths_of(q, k));
  const std::vector<unsigned char> golden{
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // nsplits: 1
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // dq_acc_offsets[0] = 0
      0x30, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [1] = 2 * 3 * 8 = 48
      0x30, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [2] = 48, the second sequence is empty
      0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [3] = 48 + 2 * 2 * 8 = 80
  };
  CHECK(packed.bytes == golden);
  CHECK(packed.guard_is_intact);
  CHECK(packed.result.dq_acc_bytes == 80 * 4);
}

TEST_CASE("the metadata of a persistent batch call are these bytes") {
  const Problem problem = batch_problem(4, 32, 2048, 128);
  const Packed packed = pack(persistent_spec(120), problem, {});
  const std::vector<unsigned char> golden{
      0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // nsplits: 2
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
  };
  CHECK(packed.bytes == golden);
  CHECK(packed.guard_is_intact);
  CHECK(packed.result.dq_acc_bytes == 268435456);
}

TEST_CASE("the metadata with a tile list are these bytes") {
  const std::vector<std::int32_t> q = starts({3, 7, 0, 7});
  const std::vector<std::int32_t> k = starts({5, 1, 9, 0});
  const Problem problem = group_problem({3, 7, 0, 7}, {5, 1, 9, 0}, 1, 8);
  WorkspaceSpec spec = spec_for(problem, false, 4);
  spec.has_tile_list = true;
  const Packed packed = pack(spec, problem, lengths_of(q, k));
  const std::vector<unsigned char> golden{
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // nsplits: 1
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // dq_acc_offsets[0] = 0
      0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [1] = 3 * 8 = 24
      0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [2] = 24 + 7 * 8 = 80
      0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [3] = 80
      0x88, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [4] = 80 + 7 * 8 = 136
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,  // tile_starts: 0, + ceil(1 / 4) = 1,
      0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,  //              + ceil(0 / 4) = 1, + ceil(5 / 4) = 3,
      0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  //              + ceil(9 / 4) = 6; padding to 16
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding
      0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,  // tile_sequences: those of 7 rows by index,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,  //                 of 3, of 0
  };
  CHECK(packed.bytes == golden);
  CHECK(packed.guard_is_intact);
  CHECK(packed.result.dq_acc_bytes == 136 * 4);
}

TEST_CASE("the metadata of bounded splits are these bytes") {
  const std::vector<std::int32_t> q = starts({3, 5});
  const std::vector<std::int32_t> k = starts({36, 4});
  const Problem problem = group_problem({3, 5}, {36, 4}, 1, 8);
  WorkspaceSpec spec = spec_for(problem, true, 4);
  spec.has_tile_list = true;
  spec.max_splits = 4;
  const Packed packed = pack(spec, problem, lengths_of(q, k));
  const std::vector<unsigned char> golden{
      0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,  // nsplits: 9 tiles by ceil(9 / 4) = 3, 1 tile
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // dq_acc_offsets[0] = 0
      0x48, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [1] = 3 * 3 * 8 = 72
      0x70, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // [2] = 72 + 5 * 8 = 112
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,  // tile_starts: 0, 1, 4
      0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // tile_sequences: 1, 0
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // padding to 16
  };
  CHECK(packed.bytes == golden);
  CHECK(packed.guard_is_intact);
  CHECK(packed.result.dq_acc_bytes == 112 * 4);
}

TEST_CASE("offsets beyond 2^32 elements are packed whole") {
  constexpr std::int32_t kLong = 1 << 20;
  const std::vector<std::int32_t> q = starts({kLong, 3, kLong});
  const std::vector<std::int32_t> k = starts({kLong, 9, 5});
  const Problem problem = group_problem({kLong, 3, kLong}, {kLong, 9, 5}, 64, 128);
  const Packed packed = pack(spec_for(problem, true, 128), problem, lengths_of(q, k));
  const std::int64_t per_row = 64 * 128;
  const std::int64_t first = per_row * kLong * (kLong / 128);  // 2^46
  const std::vector<std::int64_t> expected{0, first, first + 3 * per_row, first + (3 + kLong) * per_row};
  std::vector<std::int64_t> offsets(expected.size());
  std::memcpy(offsets.data(), packed.bytes.data() + 16, offsets.size() * sizeof(std::int64_t));
  CHECK(offsets == expected);
  CHECK(packed.result.dq_acc_bytes == expected.back() * 4);
}

TEST_CASE("kernels that write dq directly touch no metadata, not even through a null pointer") {
  WorkspaceSpec spec;
  spec.writes_dq_directly = true;
  const Problem problem = batch_problem(2, 4, 100, 64);
  const PackResult result = pack_workspace_host(spec, problem, SequenceLengths{}, nullptr);
  CHECK(result.status.code == StatusCode::ok);
  CHECK(result.dq_acc_bytes == 0);
}

TEST_CASE("packing from the two arrays of starts ignores logical lengths") {
  Problem problem = group_problem({3, 301}, {5, 700}, 16, 64);
  const WorkspaceSpec spec = spec_for(problem, true, 4);
  const std::vector<std::int32_t> q = starts({3, 301});
  const std::vector<std::int32_t> k = starts({5, 700});
  const Packed expected = pack(spec, problem, lengths_of(q, k));
  problem.logical_lengths = LogicalLengths::per_sequence;
  std::vector<unsigned char> bytes(expected.bytes.size(), kPoison);
  const PackResult result = pack_workspace_host(spec, problem, q.data(), k.data(), bytes.data());
  CHECK(result.status.code == StatusCode::ok);
  CHECK(result.dq_acc_bytes == expected.result.dq_acc_bytes);
  CHECK(bytes == expected.bytes);
}

TEST_CASE("bad lengths give kInvalidCall and say which sequence is wrong") {
  const Problem problem = group_problem({4, 4, 4}, {8, 8, 8}, 2, 8);
  const std::vector<std::int32_t> good_q = starts({4, 4, 4});
  const std::vector<std::int32_t> good_k = starts({8, 8, 8});
  struct Case {
    std::vector<std::int32_t> q, k;
    StatusCode code;
    SequenceSide side;
    std::int64_t sequence, value, limit;
  };
  const std::vector<Case> cases{
      {{1, 4, 8, 12}, good_k, StatusCode::first_not_zero, SequenceSide::q, 0, 1, 0},
      {{0, 4, 3, 12}, good_k, StatusCode::decreasing, SequenceSide::q, 1, 3, 4},
      {good_q, {0, 8, 16, -5}, StatusCode::decreasing, SequenceSide::k, 2, -5, 16},
      {good_q, {0, 8, 16, 25}, StatusCode::exceeds_tokens, SequenceSide::k, 2, 25, 24},
      {{0, 5, 8, 12}, good_k, StatusCode::exceeds_max_seqlen, SequenceSide::q, 0, 5, 4},
  };
  for (const bool is_deterministic : {false, true}) {
    WorkspaceSpec spec = spec_for(problem, is_deterministic, 4);
    spec.has_tile_list = is_deterministic;
    for (const Case& c : cases) {
      const Packed packed = pack(spec, problem, lengths_of(c.q, c.k));
      CAPTURE(static_cast<int>(c.code));
      CHECK(packed.result.status.code == c.code);
      CHECK(packed.result.status.side == c.side);
      CHECK(packed.result.status.sequence == c.sequence);
      CHECK(packed.result.status.value == c.value);
      CHECK(packed.result.status.limit == c.limit);
      CHECK(packed.result.dq_acc_bytes == 0);
      CHECK(says_invalid_call(packed.bytes));
      CHECK(packed.guard_is_intact);
    }
  }
}

TEST_CASE("a logical length beyond the physical one is refused") {
  Problem problem = group_problem({4, 4}, {8, 8}, 2, 8);
  problem.logical_lengths = LogicalLengths::per_sequence;
  const std::vector<std::int32_t> q = starts({4, 4});
  const std::vector<std::int32_t> k = starts({8, 8});
  const std::vector<std::int32_t> seqlen_q{4, 2};
  const std::vector<std::int32_t> seqlen_k{8, 9};
  SequenceLengths lengths = lengths_of(q, k);
  lengths.seqlen_q = seqlen_q.data();
  lengths.seqlen_k = seqlen_k.data();
  const Packed packed = pack(spec_for(problem, true), problem, lengths);
  CHECK(packed.result.status.code == StatusCode::bad_logical_length);
  CHECK(packed.result.status.sequence == 1);
  CHECK(says_invalid_call(packed.bytes));
}

TEST_CASE("arrays that are not there are refused, not read") {
  Problem problem = group_problem({4, 4}, {8, 8}, 2, 8);
  const WorkspaceSpec spec = spec_for(problem, true);
  const std::vector<std::int32_t> q = starts({4, 4});
  const std::vector<std::int32_t> k = starts({8, 8});
  SequenceLengths only_q;
  only_q.seqstart_q = q.data();
  const Packed without_k = pack(spec, problem, only_q);
  CHECK(without_k.result.status.code == StatusCode::first_not_zero);
  CHECK(without_k.result.status.side == SequenceSide::k);
  CHECK(says_invalid_call(without_k.bytes));
  problem.logical_lengths = LogicalLengths::cumulative;
  const Packed without_logical = pack(spec, problem, lengths_of(q, k));
  CHECK(without_logical.result.status.code == StatusCode::bad_logical_length);
  CHECK(says_invalid_call(without_logical.bytes));
}

TEST_CASE("a dq_acc beyond the caller's buffer is refused at the first sequence that does not fit") {
  const Problem problem = group_problem({4, 4, 4}, {8, 8, 8}, 2, 8);
  const WorkspaceSpec spec = spec_for(problem, true, 4);
  const std::vector<std::int32_t> q = starts({4, 4, 4});
  const std::vector<std::int32_t> k = starts({8, 8, 8});
  const std::int64_t each = 2 * 2 * 4 * 8 * 4;  // nhead * nsplits * seqlen_q * hdim * 4
  const Packed fits = pack(spec, problem, lengths_of(q, k), 3 * each);
  CHECK(fits.result.status.code == StatusCode::ok);
  CHECK(fits.result.dq_acc_bytes == 3 * each);
  const Packed refused = pack(spec, problem, lengths_of(q, k), 2 * each + 1);
  CHECK(refused.result.status.code == StatusCode::workspace_too_small);
  CHECK(refused.result.status.sequence == 2);
  CHECK(refused.result.status.value == 3 * each);
  CHECK(refused.result.status.limit == 2 * each + 1);
  CHECK(says_invalid_call(refused.bytes));
  const Packed batch_refused = pack(persistent_spec(120), batch_problem(4, 32, 2048, 128), {}, 268435455);
  CHECK(batch_refused.result.status.code == StatusCode::workspace_too_small);
  CHECK(says_invalid_call(batch_refused.bytes));
}

TEST_CASE("an overflow while packing is a refusal, not a wrapped offset") {
  Problem problem = group_problem({4, 4}, {8, 8}, 2, 8);
  problem.nhead_q = std::int64_t{1} << 32;
  problem.hdim_q = std::int64_t{1} << 30;  // 4 rows of 2^62 elements wrap to 0
  const std::vector<std::int32_t> q = starts({4, 4});
  const std::vector<std::int32_t> k = starts({8, 8});
  const Packed packed = pack(spec_for(problem, false), problem, lengths_of(q, k));
  CHECK(packed.result.status.code == StatusCode::workspace_too_small);
  CHECK(packed.result.status.value == std::numeric_limits<std::int64_t>::max());
  CHECK(says_invalid_call(packed.bytes));
}

TEST_CASE("a spec that makes no sense is refused without an exception") {
  const Problem problem = group_problem({4, 4}, {8, 8}, 2, 8);
  const std::vector<std::int32_t> q = starts({4, 4});
  const std::vector<std::int32_t> k = starts({8, 8});
  const Packed packed = pack(spec_for(problem, true, 0), problem, lengths_of(q, k));
  CHECK(packed.result.status.code == StatusCode::workspace_too_small);
  CHECK(says_invalid_call(packed.bytes));
  const PackResult nowhere = pack_workspace_host(spec_for(problem, true), problem, q.data(), k.data(), nullptr);
  CHECK(nowhere.status.code == StatusCode::workspace_too_small);
}

TEST_CASE("starts that repeat up to the capacity are empty sequences without splits of their own") {
  const std::vector<std::int32_t> q{0, 4, 4, 4};
  const std::vector<std::int32_t> k{0, 8, 8, 8};
  const Problem problem = group_problem({4, 0, 0}, {8, 0, 0}, 1, 8);
  const Packed packed = pack(spec_for(problem, true, 8), problem, lengths_of(q, k));
  CHECK(packed.result.status.code == StatusCode::ok);
  CHECK(packed.result.dq_acc_bytes == 4 * 8 * 4);
  CHECK(packed.bytes[0] == 1);
  CHECK(packed.bytes[4] == 0);
}
