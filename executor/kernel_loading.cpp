#include "kernel_loading.hpp"

#include <hip/hip_runtime.h>

#include <mutex>

#include "graph_pieces.hpp"
#include "hip_calls.hpp"
#include "node_walk.hpp"

namespace fmhax::detail {
namespace {

void load(const KernelLaunch& launch) {
  hipFuncAttributes attributes{};
  FMHAX_HIP(hipFuncGetAttributes, &attributes, launch.function);
  const auto wanted = static_cast<int>(launch.shared_bytes);
  if (wanted <= attributes.maxDynamicSharedSizeBytes) return;
  // Plans may share a function; each only raises what it is allowed.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  FMHAX_HIP(hipFuncGetAttributes, &attributes, launch.function);
  if (wanted <= attributes.maxDynamicSharedSizeBytes) return;
  FMHAX_HIP(hipFuncSetAttribute, launch.function, hipFuncAttributeMaxDynamicSharedMemorySize, wanted);
}

}  // namespace

void load_kernels(const KernelEntry& entry, const DeviceTraits& traits, const KernelParams& params) {
  // A provider may have one function for tensors whose rows begin at vectors and another for those that don't.
  KernelParams unaligned = params;
  for (TensorRef* tensor : {&unaligned.q, &unaligned.k, &unaligned.v, &unaligned.o, &unaligned.dout, &unaligned.dq,
                            &unaligned.dk, &unaligned.dv}) {
    tensor->stride_seqlen = 1;
  }
  const RelaxedCapture relaxed;
  GraphPieces pieces;
  FMHAX_HIP(hipGraphCreate, &pieces.graph, 0);
  for (const KernelParams& given : {params, unaligned}) {
    for (const KernelRole role : kKernelRoles) {
      NodeList list;
      KernelLaunch& launch = list.add_kernel(NodeKind::dq_dk_dv);
      if (!entry.form_launch(role, traits, given, launch) || launch.grid[0] == 0) continue;
      load(launch);
      (void)add_to_graph(list, pieces.graph, {});
    }
  }
  // Instantiating the first graph with a function, CUDA waits for the device.
  FMHAX_HIP(hipGraphInstantiate, &pieces.executable, pieces.graph, nullptr, nullptr, 0);
}

}  // namespace fmhax::detail
