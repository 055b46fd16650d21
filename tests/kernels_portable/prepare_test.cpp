// The prepare kernel against pack_workspace_host(): the same metadata bit for bit, the same verdict, and zeroes where
// the call will use dq_acc. prepare_and_dot against prepare and dot_do_o.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "auxiliary.hpp"
#include "device_case.hpp"
#include "fmhax/workspace.hpp"
#include "launch.hpp"
#include "verification/device_tensor.hpp"
#include "verification/random_problem.hpp"
#include "verification/reference.hpp"

namespace {

using namespace fmhax;
using namespace fmhax::portable::test;
using verification::Case;
using verification::GuardedBuffer;
using verification::Random;

/// A status in pinned host memory.
class PinnedStatus {
 public:
  PinnedStatus() {
    void* memory = nullptr;
    verification::check_hip(hipHostMalloc(&memory, sizeof(CallStatus), hipHostMallocDefault), "hipHostMalloc");
    status_ = new (memory) CallStatus{};
  }
  ~PinnedStatus() { (void)hipHostFree(status_); }
  PinnedStatus(const PinnedStatus&) = delete;
  PinnedStatus& operator=(const PinnedStatus&) = delete;
  CallStatus* get() const { return status_; }

 private:
  CallStatus* status_ = nullptr;
};

struct Prepared {
  std::vector<std::byte> metadata;
  std::vector<float> dq_acc;
  CallStatus status;
};

/// What these roles, one after another, leave of a poisoned workspace.
Prepared run(const std::vector<KernelRole>& roles, KernelParams params, const WorkspaceSpec& spec,
             std::int64_t dq_acc_bytes, bool zeroes) {
  const std::int64_t head = workspace_host_size(spec, params.problem.batch);
  GuardedBuffer metadata(static_cast<std::size_t>(head));
  GuardedBuffer dq_acc(static_cast<std::size_t>(dq_acc_bytes));
  const PinnedStatus status;
  status.get()->checks = 41;
  params.metadata = metadata.data();
  params.dq_acc = dq_acc.data();
  params.dq_acc_bytes = dq_acc_bytes;
  params.zero_dq_acc = zeroes;
  params.status = status.get();
  for (const KernelRole role : roles) {
    KernelLaunch launch;
    REQUIRE(portable::form_auxiliary(role, spec, small_device(), params, launch));
    play(launch);
  }
  CHECK(metadata.guards_are_intact());
  CHECK(dq_acc.guards_are_intact());
  return {metadata.download(), values_of<float>(dq_acc.download()), *status.get()};
}

void check_as_host(const Case& c, const WorkspaceSpec& spec, std::int64_t dq_acc_bytes) {
  const CaseLengths lengths(c);
  std::vector<std::byte> wanted(static_cast<std::size_t>(workspace_host_size(spec, c.problem.batch)), std::byte{0xFF});
  const PackResult packed = pack_workspace_host(spec, c.problem, lengths.host(), wanted.data(), dq_acc_bytes);
  const bool zeroes = c.seed % 4 != 0;
  KernelParams params;
  params.problem = c.problem;
  params.lengths = lengths.device();
  const Prepared got = run({KernelRole::prepare}, params, spec, dq_acc_bytes, zeroes);
  CHECK(got.metadata == wanted);
  CHECK(got.status.code == packed.status.code);
  CHECK(got.status.side == packed.status.side);
  CHECK(got.status.sequence == packed.status.sequence);
  CHECK(got.status.value == packed.status.value);
  CHECK(got.status.limit == packed.status.limit);
  CHECK(got.status.checks == 42);
  if (packed.status.code != StatusCode::ok) return;
  const auto used = got.dq_acc.begin() + packed.dq_acc_bytes / 4;
  const auto is_zero = [](float value) { return value == 0.0F; };
  const auto is_poison = [](float value) { return value != value; };
  CHECK(std::all_of(got.dq_acc.begin(), zeroes ? used : got.dq_acc.begin(), is_zero));
  CHECK(std::all_of(zeroes ? used : got.dq_acc.begin(), got.dq_acc.end(), is_poison));
}

WorkspaceSpec random_spec(const Problem& p, Random& random) {
  WorkspaceSpec spec = spec_of(p, random.pick<std::int64_t>({16, 64, 128, 192}));
  spec.has_tile_list = random.chance(60);
  if (random.chance(30)) spec.max_splits = random.integer(1, 4);
  if (!p.is_group_mode && p.is_deterministic && random.chance(50)) {
    spec.is_persistent = true;
    spec.workers = random.integer(1, 200);
  }
  return spec;
}

/// A group case with these lengths of q and k.
Case group_case(const std::vector<std::int32_t>& lengths_q, const std::vector<std::int32_t>& lengths_k) {
  Case c;
  Problem& p = c.problem;
  p.is_group_mode = true;
  p.batch = static_cast<std::int64_t>(lengths_q.size());
  p.nhead_q = p.nhead_k = 1;
  p.hdim_q = p.hdim_v = 8;
  const auto starts = [](const std::vector<std::int32_t>& lengths) {
    std::vector<std::int32_t> sums(lengths.size() + 1);
    std::partial_sum(lengths.begin(), lengths.end(), sums.begin() + 1);
    return sums;
  };
  c.lengths.q.seqstart = starts(lengths_q);
  c.lengths.k.seqstart = starts(lengths_k);
  p.total_q = c.lengths.q.seqstart.back();
  p.total_k = c.lengths.k.seqstart.back();
  p.max_seqlen_q = lengths_q.empty() ? 0 : *std::max_element(lengths_q.begin(), lengths_q.end());
  p.max_seqlen_k = lengths_k.empty() ? 0 : *std::max_element(lengths_k.begin(), lengths_k.end());
  c.seed = 1;
  return c;
}

std::int64_t capacity_bytes(const WorkspaceSpec& spec, const Problem& p) {
  return workspace_size(spec, p) - workspace_host_size(spec, p.batch);
}

/// Makes one entry of the lengths wrong, if there is one.
void spoil(Case& c, Random& random) {
  verification::SideLengths& side = random.chance(50) ? c.lengths.q : c.lengths.k;
  std::vector<std::int32_t>& entries = !side.logical.empty() && random.chance(50) ? side.logical : side.seqstart;
  if (entries.empty()) return;
  const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(entries.size()) - 1));
  entries[at] = random.pick<std::int32_t>({-5, -1, entries[at] + 1, entries[at] - 1, 1 << 30, -(1 << 30), 2147483647});
}

TEST_CASE("prepare writes what the host packs, on random problems") {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Case c = random_case(i, 1e6);
    Random random(6, i);
    const WorkspaceSpec spec = random_spec(c.problem, random);
    CAPTURE(i);
    check_as_host(c, spec, capacity_bytes(spec, c.problem));
  }
}

TEST_CASE("prepare refuses what the host refuses, and says the same") {
  for (std::uint64_t i = 0; i < 300; ++i) {
    Case c = random_case(i, 1e6);
    Random random(7, i);
    const WorkspaceSpec spec = random_spec(c.problem, random);
    const std::int64_t bytes = capacity_bytes(spec, c.problem);
    if (c.problem.logical_lengths != LogicalLengths::cumulative) spoil(c, random);
    CAPTURE(i);
    check_as_host(c, spec, random.chance(70) ? bytes : bytes / 32 / random.integer(1, 4) * 16);
  }
}

TEST_CASE("prepare packs one sequence, a thousand and seventy thousand") {
  for (const std::size_t batch : {1U, 31U, 32U, 33U, 255U, 1000U, 1023U, 1024U, 1025U, 4096U, 70000U}) {
    Random random(8, batch);
    std::vector<std::int32_t> q(batch), k(batch);
    // Few different lengths, so that many are equal.
    for (auto* side : {&q, &k}) {
      for (std::int32_t& length : *side) length = static_cast<std::int32_t>(random.integer(0, 40));
    }
    Case c = group_case(q, k);
    for (const bool is_deterministic : {false, true}) {
      c.problem.is_deterministic = is_deterministic;
      WorkspaceSpec spec = spec_of(c.problem, 16);
      spec.has_tile_list = true;
      CAPTURE(batch);
      CAPTURE(is_deterministic);
      check_as_host(c, spec, capacity_bytes(spec, c.problem));
    }
  }
}

TEST_CASE("prepare zeroes what the lengths use of a larger capacity") {
  Case c = group_case({100, 0, 28}, {64, 64, 64});
  c.problem.total_q = 4096;
  c.problem.max_seqlen_q = 1000;
  const WorkspaceSpec spec = spec_of(c.problem, 64);
  check_as_host(c, spec, capacity_bytes(spec, c.problem));
}

/// Rows of dout and o, and the d that one way or the other makes of them.
class Rows {
 public:
  explicit Rows(const Case& c)
      : dout_(shape(c, c.problem.dtype, c.problem.hdim_v, c.layouts.dout)),
        o_(shape(c, c.problem.dtype, c.problem.hdim_v, c.layouts.o)),
        d_(shape(c, DataType::fp32, 1, c.layouts.d)) {
    Case other = c;
    other.seed += 1;
    dout_.upload(verification::draw_inputs(c).dout, real_rows(c, SequenceSide::q));
    o_.upload(verification::draw_inputs(other).dout, real_rows(c, SequenceSide::q));
  }

  void fill(KernelParams& params) {
    d_.poison();
    params.dout = ref_of(dout_);
    params.o = ref_of(o_);
    params.d = ref_of(d_);
  }
  /// d's bits, those of poison too.
  std::vector<std::uint64_t> d() const {
    const verification::DenseTensor values = d_.download();
    std::vector<std::uint64_t> bits(values.data.size());
    std::transform(values.data.begin(), values.data.end(), bits.begin(),
                   [](double value) { return std::bit_cast<std::uint64_t>(value); });
    return bits;
  }
  std::string stray_write() const { return d_.stray_write(); }

 private:
  static verification::TensorShape shape(const Case& c, DataType dtype, std::int64_t hdim,
                                         const verification::Layout& layout) {
    const Problem& p = c.problem;
    return {dtype, verification::tensor_batch(p), verification::tensor_seqlen_q(p), p.nhead_q, hdim, layout};
  }

  verification::DeviceTensor dout_, o_, d_;
};

TEST_CASE("prepare_and_dot leaves what prepare and dot_do_o leave, bit for bit, refused or not") {
  int refused = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    Case c = random_case(i, 1e6);
    Random random(13, i);
    const WorkspaceSpec spec = random_spec(c.problem, random);
    const std::int64_t bytes = capacity_bytes(spec, c.problem);
    Rows rows(c);
    if (random.chance(30) && c.problem.logical_lengths != LogicalLengths::cumulative) spoil(c, random);
    const CaseLengths lengths(c);
    const bool zeroes = random.chance(70);
    KernelParams params;
    params.problem = c.problem;
    params.lengths = lengths.device();
    rows.fill(params);
    const Prepared wanted = run({KernelRole::prepare, KernelRole::dot_do_o}, params, spec, bytes, zeroes);
    const auto wanted_d = rows.d();
    rows.fill(params);
    const Prepared got = run({KernelRole::prepare_and_dot}, params, spec, bytes, zeroes);
    CHECK(got.metadata == wanted.metadata);
    CHECK(bytes_of(got.dq_acc) == bytes_of(wanted.dq_acc));
    CHECK(got.status.code == wanted.status.code);
    CHECK(got.status.sequence == wanted.status.sequence);
    CHECK(got.status.checks == wanted.status.checks);
    CHECK(rows.d() == wanted_d);
    CHECK(rows.stray_write() == "");
    refused += got.status.code != StatusCode::ok ? 1 : 0;
  }
  CHECK(refused > 5);
}

}  // namespace
