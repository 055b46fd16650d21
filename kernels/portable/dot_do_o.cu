// d = rowsum(dout * o) - dlse, in a launch of its own.
#include "auxiliary.hpp"
#include "dot_do_o.cuh"

namespace fmhax::portable {
namespace {

constexpr int kThreads = 256;

template <DataType kDtype, int kLanes>
__global__ __launch_bounds__(kThreads) void dot_do_o_kernel(const FMHAX_KERNEL_PARAMETER KernelParams params,
                                                            const FMHAX_KERNEL_PARAMETER DotArguments arguments) {
  dot_do_o<kDtype, kLanes, kThreads>(params, arguments, {blockIdx.x, gridDim.x});
}

}  // namespace

bool form_dot_do_o(const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch) {
  return form_by_type_and_lanes(params.problem, [&](auto type, auto lanes) {
    const std::int64_t tiles = dot_tile_count<lanes, kThreads>(params.problem);
    set_launch(launch, reinterpret_cast<const void*>(dot_do_o_kernel<type, lanes>), grid_size(tiles, traits), kThreads,
               params);
    add_argument(launch, sizeof(params), dot_arguments(params));
    return true;
  });
}

}  // namespace fmhax::portable
