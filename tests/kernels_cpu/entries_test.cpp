#include "entries.hpp"

#include <hip/hip_runtime.h>

#include <cstring>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "fmhax/registry.hpp"
#include "isa.hpp"
#include "laid_out_call.hpp"

namespace fmhax::cpu::test {
namespace {

DeviceTraits traits_of(std::int32_t multiprocessors) {
  DeviceTraits traits;
  traits.multiprocessors = multiprocessors;
  std::strcpy(traits.arch, "host");
  return traits;
}

Problem small_problem() {
  Problem p;
  p.batch = 2;
  p.nhead_q = 4;
  p.nhead_k = 2;
  p.hdim_q = 64;
  p.hdim_v = 32;
  p.max_seqlen_q = 100;
  p.max_seqlen_k = 100;
  return p;
}

std::vector<KernelEntry> usable(const Problem& p) {
  std::vector<KernelEntry> result;
  for (const KernelEntry& e : entries()) {
    if (e.unsupported_reason(p, traits_of(2)) == nullptr) result.push_back(e);
  }
  return result;
}

std::string best_name(const Problem& p) {
  const std::vector<KernelEntry> list(entries().begin(), entries().end());
  return choose_kernel(list, p, traits_of(2)).entry().name;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void launch(const KernelEntry& entry, KernelRole role, const KernelParams& params) {
  KernelLaunch launch;
  if (!entry.form_launch(role, traits_of(3), params, launch) || launch.grid[0] == 0) return;
  void* arguments[] = {launch.arguments + launch.argument_offset[0]};
  REQUIRE(launch.argument_count == 1);
  REQUIRE(launch.grid[1] == 1);
  REQUIRE(launch.grid[2] == 1);
  REQUIRE(hipLaunchKernel(launch.function, dim3(launch.grid[0]), dim3(launch.block[0]), arguments, launch.shared_bytes,
                          nullptr) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
}

}  // namespace

TEST_CASE("entries have unique names, complete functions and the contract's version") {
  std::set<std::string> names;
  for (const KernelEntry& e : entries()) {
    CHECK(names.insert(e.name).second);
    CHECK(e.version == KernelEntry::kVersion);
    const bool is_complete =
        e.unsupported_reason != nullptr && e.rank != nullptr && e.workspace_spec != nullptr && e.form_launch != nullptr;
    CHECK(is_complete);
  }
}

TEST_CASE("for every problem exactly one entry ranks highest, and it is the right kind") {
  for (const bool is_group_mode : {false, true}) {
    for (const bool is_deterministic : {false, true}) {
      for (const std::int64_t seqlen_k : {0, 1, 128, 129, 5000}) {
        Problem p = small_problem();
        p.is_group_mode = is_group_mode;
        p.is_deterministic = is_deterministic;
        p.max_seqlen_k = seqlen_k;
        std::set<std::int32_t> ranks;
        for (const KernelEntry& e : usable(p)) CHECK(ranks.insert(e.rank(p, traits_of(2))).second);
        REQUIRE_FALSE(ranks.empty());
        const std::string kind = seqlen_k <= 128                      ? "-direct"
                                 : is_deterministic && !is_group_mode ? "-persistent"
                                                                      : "-general";
        CHECK(ends_with(best_name(p), kind));
      }
    }
  }
}

TEST_CASE("the best entry uses the highest instruction set that is allowed") {
  const std::string name = best_name(small_problem());
  const char* const isas[] = {"generic", "avx2", "avx512"};
  CHECK(name.find(isas[static_cast<int>(allowed_isa())]) != std::string::npos);
}

TEST_CASE("every feature is taken, and what no kernel has is refused with a reason") {
  const auto is_refused = [](auto&& change) {
    Problem p = small_problem();
    change(p);
    bool all_refuse = true;
    for (const KernelEntry& e : entries()) {
      const char* reason = e.unsupported_reason(p, traits_of(2));
      all_refuse = all_refuse && reason != nullptr && std::strlen(reason) > 5;
    }
    return all_refuse;
  };
  CHECK_FALSE(is_refused([](Problem&) {}));
  CHECK_FALSE(is_refused([](Problem& p) { p.bias = BiasKind::alibi; }));
  CHECK_FALSE(is_refused([](Problem& p) {
    p.bias = BiasKind::elementwise;
    p.has_dbias = p.has_dropout = p.stores_random_values = p.has_sink = p.has_softcap = p.has_dlse = true;
  }));
  CHECK(is_refused([](Problem& p) { p.hdim_q = 264; }));
  CHECK(is_refused([](Problem& p) { p.hdim_v = 264; }));
}

TEST_CASE("an entry that writes dq itself computes d where dbias or dsink needs it") {
  for (const KernelEntry& e : entries()) {
    const bool is_direct = ends_with(e.name, "-direct");
    KernelParams params;
    params.problem = small_problem();
    KernelLaunch launch;
    CHECK(e.form_launch(KernelRole::dot_do_o, traits_of(2), params, launch) == !is_direct);
    CHECK_FALSE(e.form_launch(KernelRole::dbias, traits_of(2), params, launch));
    CHECK_FALSE(e.form_launch(KernelRole::dsink, traits_of(2), params, launch));
    params.problem.has_sink = true;
    CHECK(e.form_launch(KernelRole::dot_do_o, traits_of(2), params, launch));
    CHECK(e.form_launch(KernelRole::dsink, traits_of(2), params, launch));
    params.problem.bias = BiasKind::elementwise;
    params.problem.has_dbias = true;
    CHECK(e.form_launch(KernelRole::dbias, traits_of(2), params, launch));
  }
}

TEST_CASE("entries with a workspace prepare it, alone and together with d, the others do neither") {
  for (const KernelEntry& e : entries()) {
    KernelParams params;
    params.problem = small_problem();
    for (const KernelRole role : {KernelRole::prepare, KernelRole::prepare_and_dot}) {
      KernelLaunch launch;
      CHECK(e.form_launch(role, traits_of(2), params, launch) == !ends_with(e.name, "-direct"));
      params.problem.has_sink = true;  // which makes d needed everywhere
    }
  }
}

TEST_CASE("specs say which kernels need zeroed accumulators, a workspace, workers") {
  for (const KernelEntry& e : entries()) {
    const std::string name = e.name;
    Problem p = small_problem();
    const WorkspaceSpec spec = e.workspace_spec(p, traits_of(5));
    CHECK(spec.kN0 == 128);
    CHECK(spec.writes_dq_directly == ends_with(name, "-direct"));
    CHECK(spec.is_persistent == ends_with(name, "-persistent"));
    CHECK(spec.workers == (spec.is_persistent ? 5 : 0));
    CHECK(spec.can_bound_splits == ends_with(name, "-general"));
    if (!ends_with(name, "-general")) continue;
    CHECK(spec.needs_zero_dq_acc);
    p.is_group_mode = p.is_deterministic = true;
    CHECK_FALSE(e.workspace_spec(p, traits_of(5)).needs_zero_dq_acc);
    p.mask = Mask::causal();
    CHECK(e.workspace_spec(p, traits_of(5)).needs_zero_dq_acc);
    p.mask = Mask::none();
    p.logical_lengths = LogicalLengths::per_sequence;
    CHECK(e.workspace_spec(p, traits_of(5)).needs_zero_dq_acc);
  }
}

TEST_CASE("launches that an entry forms compute the gradients on the CPU runtime") {
  for (const Kernels kernels : {Kernels::general, Kernels::persistent, Kernels::direct}) {
    for (const KernelEntry& e : entries()) {
      CallSpec spec;
      spec.problem = small_problem();
      spec.problem.max_seqlen_q = spec.problem.max_seqlen_k = 0;
      spec.problem.dtype = DataType::fp32;
      spec.problem.is_deterministic = kernels == Kernels::persistent;
      spec.kernels = kernels;
      spec.workers = 3;
      const std::int32_t seqlen_k = kernels == Kernels::direct ? 120 : 300;
      spec.lengths = {{100, seqlen_k}, {100, seqlen_k}};
      LaidOutCall call(spec);
      const KernelParams params = call.params();
      const char* const kinds[] = {"-general", "-persistent", "-direct"};
      if (!ends_with(e.name, kinds[static_cast<int>(kernels)])) continue;
      if (e.unsupported_reason(params.problem, traits_of(3)) != nullptr) continue;
      call.poison();
      for (const KernelRole role : {KernelRole::dot_do_o, KernelRole::dq_dk_dv, KernelRole::convert_dq}) {
        launch(e, role, params);
      }
      CHECK(call.worst_error() <= 1e-5);
    }
  }
}

TEST_CASE("a problem without rows has nothing to launch, one without keys still clears dq") {
  for (const KernelEntry& e : entries()) {
    KernelParams params;
    params.problem = small_problem();
    params.problem.batch = 0;
    KernelLaunch launch;
    for (const KernelRole role :
         {KernelRole::forward, KernelRole::dot_do_o, KernelRole::dq_dk_dv, KernelRole::convert_dq}) {
      if (e.form_launch(role, traits_of(2), params, launch)) CHECK(launch.grid[0] == 0);
    }
    params.problem.batch = 2;
    params.problem.max_seqlen_k = 0;
    const bool has_convert = e.form_launch(KernelRole::convert_dq, traits_of(2), params, launch);
    if (!has_convert) REQUIRE(e.form_launch(KernelRole::dq_dk_dv, traits_of(2), params, launch));
    CHECK(launch.grid[0] > 0);
  }
}

}  // namespace fmhax::cpu::test
