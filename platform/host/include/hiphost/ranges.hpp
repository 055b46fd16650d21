// What a task touches, declared by whoever wrote it, so that an exploration (hiphost/explore.hpp) can tell which tasks
// need an order. Copies and sets declare themselves. What declares nothing counts as touching nothing.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <string>

namespace hiphost {

// Receives ranges of bytes. Empty ranges and null are ignored; a range that would leave its allocation is cut there.
class RangeSink {
 public:
  virtual void read(const void* base, std::size_t bytes) = 0;
  virtual void write(void* base, std::size_t bytes) = 0;
  // Bytes to which the blocks of this one kernel add in any order. To other tasks it is a write like any other.
  void accumulate(void* base, std::size_t bytes) { write(base, bytes); }

 protected:
  ~RangeSink() = default;
};

// args[i] points to the kernel's i-th argument. Called just before the kernel starts, when everything that the kernel
// was ordered after is done, so it may read what the kernel itself would read first. No HIP calls.
using KernelRanges = void (*)(const void* const* args, RangeSink& sink);
using HostFunctionRanges = void (*)(void* user_data, RangeSink& sink);

struct KernelDeclaration {
  const char* name = nullptr;  // for reports
  KernelRanges ranges = nullptr;
  // The kernel's blocks never wait for each other, so an exploration may run them in any order.
  bool blocks_in_any_order = false;
};

// Repeating a declaration replaces it. Thread-safe. The kernel need not be registered yet.
void declare_kernel(const void* handle, const KernelDeclaration& declaration);
void declare_host_function(hipHostFn_t function, const char* name, HostFunctionRanges ranges);

// Reports call copies from or to this very address, and sets of it, by this name. An empty name removes it.
void name_transfers(const void* address, const std::string& name);

}  // namespace hiphost
