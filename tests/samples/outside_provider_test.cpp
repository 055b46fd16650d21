#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/registry.hpp"
#include "plain_provider.hpp"
#include "program.hpp"
#include "verification/verify_case.hpp"

using namespace fmhax;

namespace {

verification::Case small_case(bool is_group_mode) {
  verification::Case c;
  Problem& p = c.problem;
  p.dtype = DataType::fp32;
  p.is_group_mode = is_group_mode;
  p.batch = 4;
  p.nhead_q = 4;
  p.nhead_k = 2;
  p.hdim_q = 24;
  p.hdim_v = 40;
  p.max_seqlen_q = 70;
  p.max_seqlen_k = 81;
  if (is_group_mode) {
    p.total_q = 120;
    p.total_k = 150;
    c.lengths.q.seqstart = {0, 70, 70, 101, 113};
    c.lengths.k.seqstart = {0, 33, 50, 50, 131};
  }
  c.scale = 0.2F;
  c.seed = 11;
  return c;
}

/// Every way of running a case, against fp64.
void check(const verification::Case& c) {
  using verification::RunMode;
  ExecutorOptions options;
  options.kernel = plain::provider().name;
  const verification::CaseReport report = verification::verify(
      verification::prepare(c), {RunMode::eager, RunMode::captured, RunMode::graph, RunMode::prepared}, options);
  INFO(to_string(c));
  CHECK(report.kernel == plain::provider().name);
  CHECK_MESSAGE(report.passed(), report.failure);
}

}  // namespace

TEST_CASE("outside_provider says that the provider from outside agrees with the built-in one") {
  const sample::ProgramRun run = sample::run_program(FMHAX_OUTSIDE_PROVIDER_PROGRAM);
  CHECK(run.exit_status == 0);
  REQUIRE(run.lines.size() == 13);
  CHECK(run.lines[1].starts_with("plain-fp32-32 against cpu-"));
  CHECK(run.lines[4].starts_with("plain-fp32-32 against cpu-"));
  for (std::size_t i = 2; i < 11; ++i) {
    CAPTURE(run.lines[i]);
    CHECK(run.lines[i].find("DISAGREE") == std::string::npos);
  }
  CHECK(run.lines[11].find("seqstart_q[2] = 90 < 100; gradients are NaN") != std::string::npos);
  CHECK(run.lines[12] == "agreed: every difference is at most 1e-05");
}

TEST_CASE("the sample's kernels compute every mask, in batch and group mode, with and without padding") {
  static const bool registered = [] {
    register_kernels(plain::provider());
    return true;
  }();
  REQUIRE(registered);
  const std::vector<Mask> masks{Mask::none(), Mask::causal(), Mask::causal_bottom_right(),
                                Mask::window(20, 5, MaskAlignment::bottom_right)};
  for (const bool is_group_mode : {false, true}) {
    for (const Mask& mask : masks) {
      verification::Case c = small_case(is_group_mode);
      c.problem.mask = mask;
      c.problem.is_deterministic = mask.is_none();
      check(c);
      c.problem.logical_lengths = LogicalLengths::per_sequence;
      c.lengths.q.logical = is_group_mode ? std::vector<std::int32_t>{60, 0, 31, 1} : std::vector{70, 0, 31, 1};
      c.lengths.k.logical = is_group_mode ? std::vector<std::int32_t>{33, 5, 0, 40} : std::vector{81, 5, 0, 40};
      check(c);
    }
  }
}

TEST_CASE("the sample's kernels refuse what they don't compute") {
  const DeviceTraits traits;
  const Problem good = small_case(false).problem;
  const KernelEntry& entry = plain::provider();
  CHECK(entry.unsupported_reason(good, traits) == nullptr);
  const auto refuses = [&](auto&& change) {
    Problem p = good;
    change(p);
    return entry.unsupported_reason(p, traits) != nullptr;
  };
  CHECK(refuses([](Problem& p) { p.dtype = DataType::bf16; }));
  CHECK(refuses([](Problem& p) { p.bias = BiasKind::alibi; }));
  CHECK(refuses([](Problem& p) { p.has_dropout = true; }));
  CHECK(refuses([](Problem& p) { p.has_sink = true; }));
  CHECK(refuses([](Problem& p) { p.has_softcap = true; }));
  CHECK(refuses([](Problem& p) { p.has_dlse = true; }));
  CHECK(refuses([](Problem& p) { p.batch = p.max_seqlen_k = 1 << 20; }));
}
