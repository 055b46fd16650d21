// How fmhax gets to know the kernels. Nothing here is specific to the CPU but the name of a kernel function: with a GPU
// it is the address of a __global__ function, here hiphost::kernel() makes one of a plain function.
#include "plain_provider.hpp"

#include <hip/hip_runtime.h>
#include <hiphost/kernel.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

#include "plain_kernels.hpp"

namespace plain {
namespace {

using fmhax::DeviceTraits;
using fmhax::KernelLaunch;
using fmhax::KernelParams;
using fmhax::KernelRole;
using fmhax::Problem;

/// Null: can run it. Everything that the kernels ignore has to be refused here, or it would be a silent wrong number.
const char* unsupported_reason(const Problem& p, const DeviceTraits&) {
  if (p.dtype != fmhax::DataType::fp32) return "the plain kernels take fp32 only";
  if (p.bias != fmhax::BiasKind::none) return "the plain kernels have no bias";
  if (p.has_dropout) return "the plain kernels have no dropout";
  if (p.has_sink) return "the plain kernels have no attention sink";
  if (p.has_softcap) return "the plain kernels have no logit soft-cap";
  if (p.has_dlse) return "the plain kernels take no gradient through LSE";
  // The launch's grid counts (sequence, head, tile of keys) in 31 bits.
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max() - 1;
  const std::int64_t tiles = (p.max_seqlen_k + kKeysPerTile - 1) / kKeysPerTile;
  if (p.batch > kMaxBlocks / p.nhead_q / std::max<std::int64_t>(tiles, 1)) return "too many blocks for one launch";
  return nullptr;
}

/// Below every kernel of fmhax: chosen by name, or where nothing else can run the problem.
std::int32_t rank(const Problem&, const DeviceTraits&) { return -1; }

/// One split for each tile of keys, whether the problem asks for determinism or not: no block adds to another's rows.
fmhax::WorkspaceSpec workspace_spec(const Problem& p, const DeviceTraits&) {
  fmhax::WorkspaceSpec spec;
  spec.kN0 = kKeysPerTile;
  spec.acc_element_size = sizeof(float);
  spec.is_group_mode = p.is_group_mode;
  spec.is_deterministic = true;
  spec.needs_zero_dq_acc = false;
  return spec;
}

template <void (*kBody)(const KernelParams&, Block)>
void kernel_function(KernelParams params) {
  kBody(params, {hiphost::block_idx().x, hiphost::grid_dim().x});
}

/// A launch of `blocks` blocks of one thread, whose one argument is the parameters.
template <void (*kBody)(const KernelParams&, Block)>
bool form(std::int64_t blocks, const KernelParams& params, KernelLaunch& launch) {
  static_assert(sizeof(KernelParams) <= KernelLaunch::kMaxArgumentBytes);
  launch = {};
  launch.function = hiphost::kernel(kernel_function<kBody>);
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.argument_count = 1;
  std::memcpy(launch.arguments, &params, sizeof(params));
  return true;
}

bool form_launch(KernelRole role, const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  const Problem& p = params.problem;
  if (role == KernelRole::forward) return form<forward>(forward_blocks(p), params, launch);
  if (role == KernelRole::dot_do_o) return form<dot_do_o>(4 * std::max(traits.multiprocessors, 1), params, launch);
  if (role == KernelRole::dq_dk_dv) return form<dq_dk_dv>(dq_dk_dv_blocks(p), params, launch);
  if (role == KernelRole::convert_dq) return form<convert_dq>(convert_dq_blocks(p), params, launch);
  return false;  // the other roles are optional
}

constexpr fmhax::KernelEntry make_entry() {
  fmhax::KernelEntry entry;
  entry.name = "plain-fp32-32";
  entry.unsupported_reason = unsupported_reason;
  entry.rank = rank;
  entry.workspace_spec = workspace_spec;
  entry.form_launch = form_launch;
  return entry;
}

static_assert(kKeysPerTile == 32, "the name says so");
constexpr fmhax::KernelEntry kEntry = make_entry();

}  // namespace

const fmhax::KernelEntry& provider() { return kEntry; }

}  // namespace plain
