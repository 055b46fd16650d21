#include "entries.hpp"

#include <hiphost/kernel.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

#include "bodies.hpp"
#include "declared_ranges.hpp"
#include "isa.hpp"

namespace fmhax::cpu {
namespace {

enum class Config : std::int32_t { general = 1, persistent = 2, direct = 3 };

const char* unsupported_isa(Isa isa) {
  if (isa > detected_isa()) {
    return isa == Isa::avx512 ? "this processor has no AVX-512 (x86-64-v4)" : "this processor has no AVX2 (x86-64-v3)";
  }
  return isa > allowed_isa() ? "the environment variable FMHAX_CPU_ISA allows only a lower instruction set" : nullptr;
}

template <Isa kIsa, Config kConfig>
const char* unsupported_reason(const Problem& p, const DeviceTraits&) {
  if (p.hdim_q > kMaxHdim || p.hdim_v > kMaxHdim) return "head dimensions above 256 are not supported";
  if (const char* reason = unsupported_isa(kIsa)) return reason;
  const bool is_deterministic_batch = p.is_deterministic && !p.is_group_mode;
  switch (kConfig) {
    case Config::direct:
      return p.max_seqlen_k <= kN0 ? nullptr : "max_seqlen_k is above the 128 keys of one tile";
    case Config::persistent:
      return is_deterministic_batch ? nullptr : "only for deterministic batch mode";
    case Config::general:
      return nullptr;
  }
  return nullptr;
}

template <Isa kIsa, Config kConfig>
std::int32_t rank(const Problem&, const DeviceTraits&) {
  return 10 * static_cast<std::int32_t>(kIsa) + static_cast<std::int32_t>(kConfig);
}

std::int64_t workers_of(const DeviceTraits& traits) { return std::max(traits.multiprocessors, 1); }

template <Config kConfig>
WorkspaceSpec workspace_spec(const Problem& p, const DeviceTraits& traits) {
  WorkspaceSpec spec;
  spec.kN0 = kN0;
  spec.acc_element_size = sizeof(float);
  spec.is_group_mode = p.is_group_mode;
  spec.is_deterministic = p.is_deterministic;
  if constexpr (kConfig == Config::direct) {
    spec.writes_dq_directly = true;
  } else if constexpr (kConfig == Config::persistent) {
    spec.is_persistent = true;
    spec.workers = workers_of(traits);
    spec.needs_zero_dq_acc = true;
  } else {
    spec.can_bound_splits = true;
    // A key tile's own split is overwritten, but for the rows that don't see the tile.
    spec.needs_zero_dq_acc = !p.is_deterministic || !p.mask.is_none() || p.logical_lengths != LogicalLengths::none;
  }
  return spec;
}

/// The spec that the plan was made with.
template <Config kConfig>
WorkspaceSpec planned_spec(const KernelParams& params, const DeviceTraits& traits) {
  WorkspaceSpec spec = workspace_spec<kConfig>(params.problem, traits);
  spec.max_splits = params.max_splits;
  return spec;
}

using Body = void (*)(const KernelParams&, const TileOps&, Block);

template <Isa kIsa, Body kBody>
void kernel_function(KernelParams params) {
  kBody(params, tile_ops(kIsa, params.problem.dtype), {hiphost::block_idx().x, hiphost::grid_dim().x});
}

template <Isa kIsa, Body kBody>
bool form(std::int64_t blocks, const KernelParams& params, KernelLaunch& launch) {
  static_assert(sizeof(KernelParams) <= KernelLaunch::kMaxArgumentBytes);
  launch = {};
  launch.function = hiphost::kernel(kernel_function<kIsa, kBody>);
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, std::numeric_limits<std::int32_t>::max()));
  launch.argument_count = 1;
  std::memcpy(launch.arguments, &params, sizeof(params));
  return true;
}

void prepare_function(KernelParams params, WorkspaceSpec spec) {
  prepare(params, spec, {hiphost::block_idx().x, hiphost::grid_dim().x});
}

template <Isa kIsa>
void prepare_and_dot_function(KernelParams params, WorkspaceSpec spec) {
  const Block block{hiphost::block_idx().x, hiphost::grid_dim().x};
  prepare(params, spec, block);
  dot_do_o(params, tile_ops(kIsa, params.problem.dtype), block);
}

/// Of prepare: a block more has to be worth its sum over all lengths.
std::int64_t prepare_blocks(const KernelParams& params) {
  constexpr std::int64_t kSequencesPerBlock = 256;
  constexpr std::int64_t kBytesPerBlock = 1 << 18;
  const std::int64_t zeroes = params.zero_dq_acc ? params.dq_acc_bytes : 0;
  return 1 + params.problem.batch / kSequencesPerBlock + zeroes / kBytesPerBlock;
}

bool form_with_spec(void (*function)(KernelParams, WorkspaceSpec), std::int64_t blocks, const WorkspaceSpec& spec,
                    const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  static_assert(sizeof(KernelParams) % alignof(WorkspaceSpec) == 0);
  static_assert(sizeof(KernelParams) + sizeof(WorkspaceSpec) <= KernelLaunch::kMaxArgumentBytes);
  launch = {};
  launch.function = hiphost::kernel(function);
  launch.grid[0] = static_cast<std::uint32_t>(std::min(blocks, workers_of(traits)));
  launch.argument_count = 2;
  launch.argument_offset[1] = sizeof(params);
  std::memcpy(launch.arguments, &params, sizeof(params));
  std::memcpy(launch.arguments + sizeof(params), &spec, sizeof(spec));
  return true;
}

// For kernels whose blocks check all lengths: enough of them to even out their work, few enough to check cheaply.
constexpr std::int64_t kCheckingBlocksPerWorker = 16;

std::int64_t checking_blocks(std::int64_t jobs, const DeviceTraits& traits) {
  return std::min(jobs, kCheckingBlocksPerWorker * workers_of(traits));
}

template <Isa kIsa, Config kConfig>
bool form_launch(KernelRole role, const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  switch (role) {
    case KernelRole::forward:
      return form<kIsa, forward>(checking_blocks(forward_jobs(p), traits), params, launch);
    case KernelRole::dot_do_o:
      if (kConfig == Config::direct && !p.has_dbias && !p.has_sink) return false;
      return form<kIsa, dot_do_o>(checking_blocks(dot_do_o_jobs(p), traits), params, launch);
    case KernelRole::dq_dk_dv:
      if constexpr (kConfig == Config::direct) {
        return form<kIsa, backward_direct>(checking_blocks(backward_direct_jobs(p), traits), params, launch);
      } else if constexpr (kConfig == Config::persistent) {
        return form<kIsa, backward_persistent>(rows_k(p) > 0 ? workers_of(traits) : 0, params, launch);
      } else {
        return form<kIsa, backward_general>(backward_general_jobs(p), params, launch);
      }
    case KernelRole::convert_dq:
      if constexpr (kConfig == Config::direct) return false;
      return form<kIsa, convert_dq>(convert_dq_jobs(p), params, launch);
    case KernelRole::prepare:
      if constexpr (kConfig == Config::direct) return false;
      return form_with_spec(prepare_function, prepare_blocks(params), planned_spec<kConfig>(params, traits), traits,
                            params, launch);
    case KernelRole::prepare_and_dot:
      if constexpr (kConfig == Config::direct) return false;
      return form_with_spec(prepare_and_dot_function<kIsa>, std::max(prepare_blocks(params), dot_do_o_jobs(p)),
                            planned_spec<kConfig>(params, traits), traits, params, launch);
    case KernelRole::dbias:
      if (!p.has_dbias) return false;
      return form<kIsa, dbias>(checking_blocks(dbias_jobs(params), traits), params, launch);
    case KernelRole::dsink:
      if (!p.has_sink) return false;
      return form<kIsa, dsink>(checking_blocks(dsink_jobs(params), traits), params, launch);
  }
  return false;
}

template <Isa kIsa, Config kConfig>
constexpr KernelEntry entry(const char* name) {
  KernelEntry e;
  e.name = name;
  e.unsupported_reason = unsupported_reason<kIsa, kConfig>;
  e.rank = rank<kIsa, kConfig>;
  e.workspace_spec = workspace_spec<kConfig>;
  e.form_launch = form_launch<kIsa, kConfig>;
  return e;
}

static_assert(kM0 == 64 && kN0 == 128, "the names below say so");

constexpr KernelEntry kEntries[] = {
#ifdef FMHAX_CPU_X86_64
    entry<Isa::avx512, Config::direct>("cpu-avx512-64x128-direct"),
    entry<Isa::avx512, Config::persistent>("cpu-avx512-64x128-persistent"),
    entry<Isa::avx512, Config::general>("cpu-avx512-64x128-general"),
    entry<Isa::avx2, Config::direct>("cpu-avx2-64x128-direct"),
    entry<Isa::avx2, Config::persistent>("cpu-avx2-64x128-persistent"),
    entry<Isa::avx2, Config::general>("cpu-avx2-64x128-general"),
#endif
    entry<Isa::generic, Config::direct>("cpu-generic-64x128-direct"),
    entry<Isa::generic, Config::persistent>("cpu-generic-64x128-persistent"),
    entry<Isa::generic, Config::general>("cpu-generic-64x128-general"),
};

}  // namespace

std::span<const KernelEntry> entries() {
  [[maybe_unused]] static const bool declared = declare_ranges(kEntries);
  return kEntries;
}

}  // namespace fmhax::cpu
