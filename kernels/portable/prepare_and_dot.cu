// What prepare and dot_do_o do, in one launch: neither waits for the other. Block 0 packs, which is all latency, so it
// does nothing else; the others share the zeroing, whose stores nothing waits for, and then the rows.
#include "auxiliary.hpp"
#include "dot_do_o.cuh"
#include "prepare.cuh"

namespace fmhax::portable {
namespace {

template <DataType kDtype, int kLanes>
__global__ __launch_bounds__(kPrepareThreads) void prepare_and_dot_kernel(
    const FMHAX_KERNEL_PARAMETER KernelParams params, const FMHAX_KERNEL_PARAMETER WorkspaceSpec spec,
    const FMHAX_KERNEL_PARAMETER DotArguments arguments) {
  __shared__ PackMemory memory;
  if (blockIdx.x == 0) {
    Packer(params, spec, memory).pack();
    return;
  }
  const Part block{blockIdx.x - 1, gridDim.x - 1};
  if (params.zero_dq_acc) zero_dq_acc(params, spec, memory.total, block);
  dot_do_o<kDtype, kLanes, kPrepareThreads>(params, arguments, block);
}

}  // namespace

bool form_prepare_and_dot(const WorkspaceSpec& spec, const DeviceTraits& traits, const KernelParams& params,
                          KernelLaunch& launch) {
  static_assert(sizeof(KernelParams) + alignof(WorkspaceSpec) + sizeof(WorkspaceSpec) + sizeof(DotArguments) <=
                KernelLaunch::kMaxArgumentBytes);
  return form_by_type_and_lanes(params.problem, [&](auto type, auto lanes) {
    const std::int64_t sharing =
        std::max(zeroing_blocks(params), dot_tile_count<lanes, kPrepareThreads>(params.problem));
    const std::int64_t blocks = 1 + std::min(sharing, most_sharing_blocks(traits));
    set_launch(launch, reinterpret_cast<const void*>(prepare_and_dot_kernel<type, lanes>),
               static_cast<std::uint32_t>(blocks), kPrepareThreads, params);
    add_argument(launch, sizeof(params), spec);
    add_argument(launch, launch.argument_offset[1] + sizeof(spec), dot_arguments(params));
    return true;
  });
}

}  // namespace fmhax::portable
