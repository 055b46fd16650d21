// Fault injection: the n-th call of the HIP API, or the n-th allocation of device or pinned memory, fails.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

namespace hiphost {

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
