// The metadata from lengths in device memory, and the zeroing: what pack_workspace_host() does, in one launch. Block 0
// packs; the others zero what the lengths of this call need of dq_acc.
#include "auxiliary.hpp"
#include "prepare.cuh"

namespace fmhax::portable {
namespace {

__global__ __launch_bounds__(kPrepareThreads) void prepare_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                                                                  const FMHAX_KERNEL_PARAMETER WorkspaceSpec spec) {
  __shared__ PackMemory memory;
  if (blockIdx.x == 0) {
    Packer(params, spec, memory).pack();
  } else {
    zero_dq_acc(params, spec, memory.total, {blockIdx.x - 1, gridDim.x - 1});
  }
}

}  // namespace

bool form_prepare(const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                  KernelLaunch& launch) {
  static_assert(sizeof(KernelParams) + alignof(WorkspaceSpec) + sizeof(WorkspaceSpec) <=
                KernelLaunch::kMaxArgumentBytes);
  const std::int64_t blocks = 1 + std::min(zeroing_blocks(params), most_sharing_blocks(traits));
  set_launch(launch, reinterpret_cast<const void*>(prepare_kernel), static_cast<std::uint32_t>(blocks), kPrepareThreads,
             params);
  add_argument(launch, sizeof(params), spec);
  return true;
}

}  // namespace fmhax::portable
