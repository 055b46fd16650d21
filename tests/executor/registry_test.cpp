#include "fmhax/registry.hpp"

#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "fmhax/error.hpp"

using namespace fmhax;

namespace {

const char* supported(const Problem&, const DeviceTraits&) { return nullptr; }
const char* only_wide_heads(const Problem& p, const DeviceTraits&) {
  return p.hdim_q < 128 ? "hdim_q below 128" : nullptr;
}
const char* never_supported(const Problem&, const DeviceTraits&) { return "an entry of the tests"; }
std::int32_t low_rank(const Problem&, const DeviceTraits&) { return 1; }
std::int32_t high_rank(const Problem&, const DeviceTraits&) { return 9; }
WorkspaceSpec no_workspace(const Problem& p, const DeviceTraits&) {
  return {.is_group_mode = p.is_group_mode, .writes_dq_directly = true};
}
bool no_launch(KernelRole, const DeviceTraits&, const KernelParams&, KernelLaunch&) { return false; }

KernelEntry entry(const char* name, const char* (*reason)(const Problem&, const DeviceTraits&),
                  std::int32_t (*rank)(const Problem&, const DeviceTraits&)) {
  return {KernelEntry::kVersion, name, reason, rank, no_workspace, no_launch};
}

Problem problem_with_hdim(std::int64_t hdim) {
  Problem p;
  p.batch = p.nhead_q = p.nhead_k = p.max_seqlen_q = p.max_seqlen_k = 1;
  p.hdim_q = p.hdim_v = hdim;
  return p;
}

std::string message_of_choice(const std::vector<KernelEntry>& entries, const Problem& problem,
                              const std::string& name) {
  try {
    (void)choose_kernel(entries, problem, {}, name);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    return error.what();
  }
  FAIL("a kernel was chosen");
  return {};
}

}  // namespace

TEST_CASE("the highest rank among the entries that can run a problem is chosen") {
  const std::vector<KernelEntry> entries{entry("plain", supported, low_rank), entry("wide", only_wide_heads, high_rank),
                                         entry("plain-again", supported, low_rank)};
  CHECK(std::strcmp(choose_kernel(entries, problem_with_hdim(128), {}).entry().name, "wide") == 0);
  const KernelChoice narrow = choose_kernel(entries, problem_with_hdim(64), {});
  CHECK(std::strcmp(narrow.entry().name, "plain") == 0);
  CHECK(narrow.candidates.at(1).unsupported_reason == "hdim_q below 128");
}

TEST_CASE("a named kernel is taken whatever its rank, or refused with its reason") {
  const std::vector<KernelEntry> entries{entry("plain", supported, low_rank),
                                         entry("wide", only_wide_heads, high_rank)};
  CHECK(std::strcmp(choose_kernel(entries, problem_with_hdim(128), {}, "plain").entry().name, "plain") == 0);
  CHECK(message_of_choice(entries, problem_with_hdim(64), "wide").find("hdim_q below 128") != std::string::npos);
  CHECK(message_of_choice(entries, problem_with_hdim(64), "absent").find("absent") != std::string::npos);
}

TEST_CASE("a kernel whose workspace is above the ceiling gives way to one that can do with less") {
  const auto with_spec = [](const char* name, std::int32_t (*its_rank)(const Problem&, const DeviceTraits&),
                            WorkspaceSpec (*spec)(const Problem&, const DeviceTraits&)) {
    KernelEntry e = entry(name, supported, its_rank);
    e.workspace_spec = spec;
    return e;
  };
  const std::vector<KernelEntry> entries{
      with_spec("fixed", high_rank,
                [](const Problem&, const DeviceTraits&) { return WorkspaceSpec{.kN0 = 16, .is_deterministic = true}; }),
      with_spec("bounded", low_rank, [](const Problem&, const DeviceTraits&) {
        return WorkspaceSpec{.kN0 = 16, .is_deterministic = true, .can_bound_splits = true};
      })};
  Problem problem = problem_with_hdim(8);
  problem.is_deterministic = true;
  problem.max_seqlen_k = 100;  // 7 splits of 32 bytes behind 16 of metadata
  const auto chosen = [&](std::int64_t ceiling) {
    return std::string(choose_kernel(entries, problem, {}, {}, ceiling).entry().name);
  };
  CHECK(chosen(0) == "fixed");
  CHECK(chosen(16 + 7 * 32) == "fixed");
  CHECK(chosen(16 + 7 * 32 - 1) == "bounded");
  CHECK(chosen(16 + 32) == "bounded");
  CHECK_THROWS_WITH_AS(choose_kernel(entries, problem, {}, {}, 47), doctest::Contains("at least 48 bytes"), Error);
}

TEST_CASE("without any kernel the error says so") {
  CHECK(message_of_choice({}, problem_with_hdim(64), "").find("no kernel is registered") != std::string::npos);
}

TEST_CASE("an incomplete, outdated or doubly named entry is refused") {
  KernelEntry incomplete = entry("test-incomplete", supported, low_rank);
  incomplete.form_launch = nullptr;
  CHECK_THROWS_AS(register_kernels(incomplete), Error);
  KernelEntry outdated = entry("test-outdated", supported, low_rank);
  outdated.version = KernelEntry::kVersion + 1;
  CHECK_THROWS_AS(register_kernels(outdated), Error);
  KernelEntry nameless = entry(nullptr, supported, low_rank);
  CHECK_THROWS_AS(register_kernels(nameless), Error);
  register_kernels(entry("test-never-chosen", never_supported, low_rank));
  const std::vector<KernelEntry> before = registered_kernels();
  KernelEntry twin = entry(before.front().name, supported, low_rank);
  CHECK_THROWS_AS(register_kernels(twin), Error);
  CHECK(registered_kernels().size() == before.size());
}
