#include <hiphost/kernel.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "api.hpp"
#include "capture.hpp"
#include "kernel_params.hpp"
#include "kernel_registry.hpp"

namespace hiphost {
namespace {

constexpr std::size_t kArgumentAlignment = 16;

}  // namespace

void KernelRegistry::add(const void* function, std::size_t count, const std::size_t* sizes, KernelThunk thunk) {
  if (function == nullptr || thunk == nullptr || find(function) != nullptr) return;
  auto info = std::make_unique<KernelInfo>();
  info->function = function;
  info->thunk = thunk;
  for (std::size_t i = 0; i < count; ++i) {
    info->sizes.push_back(sizes[i]);
    info->offsets.push_back(info->packed_size);
    info->packed_size += (sizes[i] + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  }
  std::lock_guard lock(mutex_);
  kernels_.emplace(function, std::move(info));
}

const KernelInfo* KernelRegistry::find(const void* function) const {
  std::shared_lock lock(mutex_);
  const auto it = kernels_.find(function);
  return it == kernels_.end() ? nullptr : it->second.get();
}

KernelRegistry& kernel_registry() {
  static KernelRegistry* const registry = new KernelRegistry;
  return *registry;
}

hipError_t make_kernel_work(const void* function, dim3 grid, dim3 block, void** args, void** extra,
                            std::size_t shared_bytes, KernelWork& out) {
  if (function == nullptr) return hipErrorInvalidDeviceFunction;
  const KernelInfo* info = kernel_registry().find(function);
  if (info == nullptr) return hipErrorInvalidDeviceFunction;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return hipErrorInvalidConfiguration;
  }
  if (grid.x > kMostGridX || grid.y > kMostGridYZ || grid.z > kMostGridYZ) return hipErrorInvalidConfiguration;
  if (block.x > kMostBlockThreads || block.y > kMostBlockThreads || block.z > kMostBlockThreads ||
      std::uint64_t{block.x} * block.y * block.z > kMostBlockThreads) {
    return hipErrorInvalidConfiguration;
  }
  if (shared_bytes > kMostSharedBytes) return hipErrorInvalidConfiguration;
  if (extra != nullptr) return hipErrorNotSupported;
  if (args == nullptr && !info->sizes.empty()) return hipErrorInvalidValue;
  out.kernel = info;
  out.grid = grid;
  out.block = block;
  out.shared_bytes = shared_bytes;
  out.args = ArgumentBlock(info->packed_size);
  for (std::size_t i = 0; i < info->sizes.size(); ++i) {
    if (args[i] == nullptr) return hipErrorInvalidValue;
    std::memcpy(out.args.data() + info->offsets[i], args[i], info->sizes[i]);
  }
  return hipSuccess;
}

}  // namespace hiphost

using namespace hiphost;

extern "C" {

void hiphost_register_kernel(const void* fn, size_t nargs, const size_t* sizes,
                             void (*thunk)(const void* fn, void** args)) {
  kernel_registry().add(fn, nargs, sizes, thunk);
}

hipError_t hipLaunchKernel(const void* function_address, dim3 numBlocks, dim3 dimBlocks, void** args,
                           size_t sharedMemBytes, hipStream_t stream) {
  FMHAX_HIP_API({
    KernelWork work;
    const hipError_t status =
        make_kernel_work(function_address, numBlocks, dimBlocks, args, nullptr, sharedMemBytes, work);
    if (status != hipSuccess) return status;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    work.device = target->device.index;
    return dispatch(rt, *target, std::move(work));
  });
}

hipError_t hipFuncGetAttributes(hipFuncAttributes* attr, const void* func) {
  FMHAX_HIP_API_ANYWHERE({
    if (attr == nullptr) return hipErrorInvalidValue;
    if (kernel_registry().find(func) == nullptr) return hipErrorInvalidDeviceFunction;
    *attr = hipFuncAttributes{};
    attr->maxThreadsPerBlock = static_cast<int>(kMostBlockThreads);
    attr->maxDynamicSharedSizeBytes = static_cast<int>(kMostSharedBytes);
    return hipSuccess;
  });
}

hipError_t hipFuncSetAttribute(const void* func, hipFuncAttribute attr, int value) {
  FMHAX_HIP_API_ANYWHERE({
    if (kernel_registry().find(func) == nullptr) return hipErrorInvalidDeviceFunction;
    if (attr != hipFuncAttributeMaxDynamicSharedMemorySize && attr != hipFuncAttributePreferredSharedMemoryCarveout) {
      return hipErrorInvalidValue;
    }
    // Every kernel may use all of the shared memory anyway.
    return value < 0 || static_cast<std::size_t>(value) > kMostSharedBytes ? hipErrorInvalidValue : hipSuccess;
  });
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* f, int blockSize,
                                                        size_t dynSharedMemPerBlk) {
  FMHAX_HIP_API_ANYWHERE({
    if (numBlocks == nullptr || blockSize <= 0) return hipErrorInvalidValue;
    if (kernel_registry().find(f) == nullptr) return hipErrorInvalidDeviceFunction;
    // A multiprocessor is a thread of the pool: one block at a time.
    const bool fits =
        static_cast<std::uint32_t>(blockSize) <= kMostBlockThreads && dynSharedMemPerBlk <= kMostSharedBytes;
    *numBlocks = fits ? 1 : 0;
    return hipSuccess;
  });
}

}  // extern "C"
