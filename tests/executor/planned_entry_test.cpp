// What a plan does with an entry that asks for more than the library's own: shared memory, a tile list.
#include <doctest/doctest.h>

#include "call_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

const KernelEntry& whole() {
  static const KernelEntry entry = Executor(long_case().problem).kernel_choice().entry();
  return entry;
}

/// Registers a variant of the kernels that long_case() takes, which is never chosen unasked.
ExecutorOptions with_variant(const char* name, void (*change)(KernelEntry&)) {
  ExecutorOptions options;
  options.kernel = name;
  for (const KernelEntry& known : registered_kernels()) {
    if (options.kernel == known.name) return options;
  }
  KernelEntry entry = whole();
  entry.name = name;
  entry.rank = [](const Problem&, const DeviceTraits&) { return -1; };
  change(entry);
  register_kernels(entry);
  return options;
}

}  // namespace

TEST_CASE("a plan allows its kernels the shared memory that their launches ask for") {
  const ExecutorOptions options = with_variant("much-shared-memory", [](KernelEntry& entry) {
    entry.form_launch = [](KernelRole role, const DeviceTraits& traits, const KernelParams& params,
                           KernelLaunch& launch) {
      const bool has_role = whole().form_launch(role, traits, params, launch);
      if (role == KernelRole::dq_dk_dv) {
        launch.shared_bytes = static_cast<std::uint32_t>(traits.shared_memory_per_block / 2);
      }
      return has_role;
    };
  });
  Call call(long_case(), options);
  CHECK(failure_of_replay(call, [&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); }) == "");
}

TEST_CASE("a kernel function that the runtime does not know is refused while planning") {
  const ExecutorOptions options = with_variant("unknown-function", [](KernelEntry& entry) {
    entry.form_launch = [](KernelRole, const DeviceTraits&, const KernelParams&, KernelLaunch& launch) {
      static const int not_a_kernel = 0;
      launch.function = &not_a_kernel;
      launch.grid[0] = 1;
      return true;
    };
  });
  CHECK_THROWS_WITH_AS(Executor(long_case().problem, options), doctest::Contains("hipFuncGetAttributes"), Error);
}

TEST_CASE("kernels whose spec has a tile list find it in the workspace") {
  static KernelParams seen;
  const ExecutorOptions options = with_variant("tile-list", [](KernelEntry& entry) {
    entry.workspace_spec = [](const Problem& problem, const DeviceTraits& traits) {
      WorkspaceSpec spec = whole().workspace_spec(problem, traits);
      spec.has_tile_list = true;
      return spec;
    };
    entry.form_launch = [](KernelRole role, const DeviceTraits& traits, const KernelParams& params,
                           KernelLaunch& launch) {
      if (role == KernelRole::dq_dk_dv) seen = params;
      const bool prepares = role == KernelRole::prepare || role == KernelRole::prepare_and_dot;
      return !prepares && whole().form_launch(role, traits, params, launch);
    };
  });
  Call call(long_case(), options);
  CHECK(failure_of_replay(call, [&](hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); }) == "");

  const std::int64_t batch = call.executor.problem().batch;
  std::vector<std::int32_t> starts(static_cast<std::size_t>(batch) + 1);
  std::vector<std::int32_t> sequences(static_cast<std::size_t>(batch));
  REQUIRE(seen.tile_starts != nullptr);
  check_hip(hipMemcpy(starts.data(), seen.tile_starts, starts.size() * 4, hipMemcpyDeviceToHost), "hipMemcpy");
  check_hip(hipMemcpy(sequences.data(), seen.tile_sequences, sequences.size() * 4, hipMemcpyDeviceToHost), "hipMemcpy");
  CHECK(sequences == std::vector<std::int32_t>{0, 3, 2, 1});  // 300, 77, 1 and 0 rows
  const std::int64_t tiles = key_tiles(call.executor.workspace_spec().kN0, 300);
  CHECK(starts[1] == tiles);
  CHECK(find_tile(starts.data(), batch, tiles) == 1);
}
