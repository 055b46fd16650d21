// The functions that may be launched, with the layout of their arguments.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace hiphost {

using KernelThunk = void (*)(const void* function, void** args);

struct KernelInfo {
  const void* function = nullptr;
  KernelThunk thunk = nullptr;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> offsets;  // of each argument in the packed block
  std::size_t packed_size = 0;
  // What a block took in recent launches; 0 before the first. Decides whether waking helpers pays.
  mutable std::atomic<std::uint32_t> block_ns{0};
};

// Entries live for ever, so a pointer to one may be kept.
class KernelRegistry {
 public:
  void add(const void* function, std::size_t count, const std::size_t* sizes, KernelThunk thunk);
  const KernelInfo* find(const void* function) const;

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<KernelInfo>> kernels_;
};

// Usable before and after the runtime itself.
KernelRegistry& kernel_registry();

}  // namespace hiphost
