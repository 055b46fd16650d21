// Fault injection: the n-th call of the HIP API, or the n-th allocation of device or pinned memory, fails.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hiphost {

// How many there are of what an application must destroy or free.
struct LiveObjects {
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t executables = 0;
  std::size_t user_objects = 0;
  std::size_t allocations = 0;

  bool operator==(const LiveObjects&) const = default;
};
LiveObjects live_objects();

struct FaultPlan {
  std::uint64_t call = 0;        // counted from 1; 0: none fails, calls are only counted
  std::uint64_t allocation = 0;  // likewise, of device and pinned memory
  std::string function = {};     // only calls of this function are counted; empty: of all
  bool this_thread_only = false;
  // hipSuccess: hipErrorOutOfMemory for functions that allocate, hipErrorUnknown for others.
  hipError_t error = hipSuccess;
};

class FaultCounter;

// Counts while it lives, except where suspended; one at a time. The chosen call returns the error without doing
// anything, once. hipGetLastError and hipPeekAtLastError, which only report, are not counted.
class FaultInjection {
 public:
  explicit FaultInjection(FaultPlan plan);
  ~FaultInjection();
  FaultInjection(const FaultInjection&) = delete;
  FaultInjection& operator=(const FaultInjection&) = delete;

  void suspend() noexcept;
  void resume() noexcept;

  std::uint64_t calls() const noexcept;
  std::uint64_t allocations() const noexcept;
  // Name of the call that was made to fail, "allocation" for an allocation; null when none was.
  const char* failed() const noexcept;

 private:
  std::unique_ptr<FaultCounter> counter_;
};

}  // namespace hiphost
