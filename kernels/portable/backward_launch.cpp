#include "backward_launch.hpp"

#include <array>
#include <limits>

#include "fmhax/contract/workspace.hpp"
#include "launch.hpp"

namespace fmhax::portable {

bool needs_features(const Problem& p) { return p.bias != BiasKind::none || p.has_softcap || p.has_dropout; }

bool takes_full_kernel(const BackwardConfig& plain, const Problem& p, const DeviceTraits& traits, bool is_aligned) {
  return needs_features(p) || !is_aligned || traits.shared_memory_per_block < plain.shared_bytes();
}

const char* unsupported_reason(const BackwardConfig& config, const Problem& p, const DeviceTraits& traits) {
  if (!config.is_available) return "the kernel has no tiles for this GPU";
  if (p.dtype != config.dtype) return "the kernel is for another data type";
  if (p.hdim_q > config.hdim_q || p.hdim_v > config.hdim_v) return "the kernel is for smaller head dimensions";
  if (p.hdim_q % 8 != 0 || p.hdim_v % 8 != 0) return "head dimensions must be multiples of 8";
  if (p.max_seqlen_q > kMaxSeqlen || p.max_seqlen_k > kMaxSeqlen) return "sequences above 2^30 rows are not supported";
  if (config.is_direct && p.max_seqlen_k > config.tile_keys()) return "max_seqlen_k is above the keys of one tile";
  const BackwardConfig full =
      backward_config(tile_set(traits), config.dtype, config.hdim_q, config.hdim_v, config.is_direct, true);
  if (traits.shared_memory_per_block < full.shared_bytes()) {
    return "a block of this GPU has too little shared memory for the kernel";
  }
  return nullptr;
}

/// A warp's reductions to dq_acc are whole cache lines, of which they touch one more each where it begins elsewhere.
constexpr std::int64_t kAccAlignment = 128;

WorkspaceSpec workspace_spec(const BackwardConfig& config, const Problem& p) {
  WorkspaceSpec spec;
  spec.kN0 = config.tile_keys();
  spec.acc_element_size = sizeof(float);
  spec.acc_alignment = kAccAlignment;
  spec.is_group_mode = p.is_group_mode;
  spec.is_deterministic = p.is_deterministic;
  spec.writes_dq_directly = config.is_direct;
  if (config.is_direct) return spec;
  spec.has_tile_list = p.is_group_mode;
  spec.can_bound_splits = true;
  // A split's first tile overwrites it, but for the rows that don't see the tile.
  spec.needs_zero_dq_acc = !p.is_deterministic || !p.mask.is_none() || p.logical_lengths != LogicalLengths::none;
  return spec;
}

SectionLimits section_limits(const Problem& p, const DeviceTraits& traits) {
  if (p.mask.is_none()) return {};
  constexpr std::int64_t kCacheBytes = 32 << 20;
  constexpr std::int64_t kJobsPerMultiprocessor = 4;
  const std::int64_t group = p.nhead_q / p.nhead_k;
  const std::int64_t row_bytes = group * (2 * (p.hdim_q + p.hdim_v) + 4 * p.hdim_q);
  return {kCacheBytes / row_bytes, kJobsPerMultiprocessor * traits.multiprocessors};
}

bool form_backward(bool is_direct, const BackwardFunctions& functions, int hdim_q, int hdim_v,
                   const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  BackwardArguments arguments;
  arguments.is_aligned = true;
  for (const TensorRef* t : {&params.q, &params.k, &params.v, &params.dout, &params.dk, &params.dv}) {
    arguments.is_aligned = arguments.is_aligned && has_aligned_rows(*t, p.dtype);
  }
  if (is_direct) {
    arguments.is_aligned =
        arguments.is_aligned && has_aligned_rows(params.o, p.dtype) && has_aligned_rows(params.dq, p.dtype);
  }
  const TileSet set = tile_set(traits);
  const BackwardConfig plain = backward_config(set, p.dtype, hdim_q, hdim_v, is_direct, false);
  const bool is_full = takes_full_kernel(plain, p, traits, arguments.is_aligned);
  const BackwardConfig config = is_full ? backward_config(set, p.dtype, hdim_q, hdim_v, is_direct, true) : plain;
  WorkspaceSpec spec = workspace_spec(config, p);
  spec.max_splits = params.max_splits;

  // Group mode: blocks that find no job left leave at once, but they cost their launch, so there are no more than a few
  // for each multiprocessor and they take turns. The fewer there are, the less do jobs keep their order.
  constexpr std::int64_t kGroupBlocks = 16;
  constexpr std::int64_t kDirectBlocks = 32;
  arguments.side_by_side = std::max(traits.multiprocessors, 1);
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (is_direct) {
    arguments.jobs = p.batch * p.nhead_k;
    most = kDirectBlocks * arguments.side_by_side;
  } else if (p.is_group_mode) {
    arguments.jobs = tile_list_bound(spec, p) * p.nhead_k;
    arguments.limits = section_limits(p, traits);
    most = kGroupBlocks * arguments.side_by_side;
  } else {
    arguments.jobs_per_head = sequence_jobs(spec, p, p.max_seqlen_k);
    arguments.jobs = arguments.jobs_per_head * p.batch * p.nhead_k;
    arguments.sections =
        head_sections(section_limits(p, traits), p.max_seqlen_q, arguments.jobs_per_head, p.batch * p.nhead_k, 0);
  }
  // Rows of no sequence are cleared by whatever blocks there are, so there is one at least.
  const std::int64_t rows = rows_k(p) + (is_direct || p.is_group_mode ? rows_q(p) : 0);
  const std::int64_t blocks = rows == 0 ? 0 : std::clamp<std::int64_t>(arguments.jobs, 1, most);

  set_launch(launch, functions.function[is_direct ? 1 : 0][is_full ? 1 : 0], static_cast<std::uint32_t>(blocks),
             static_cast<std::uint32_t>(config.threads()), params);
  launch.shared_bytes = static_cast<std::uint32_t>(config.shared_bytes());
  add_argument(launch, sizeof(params), arguments);
  return true;
}

}  // namespace fmhax::portable
