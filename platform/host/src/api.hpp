// Every public function passes through here: the hook that sees its name, the thread's last error, out of memory.
#pragma once

#include <hip/hip_runtime_api.h>

#include <new>

#include "runtime.hpp"

namespace hiphost {

// Sees each call before it does anything. What it returns, unless hipSuccess, is the call's result.
class ApiHook {
 public:
  virtual ~ApiHook() = default;
  virtual hipError_t entered(const char* function) noexcept = 0;
  virtual void left(const char* /*function*/, hipError_t /*result*/) noexcept {}
};

// Null for none. The hook must outlive all calls.
void set_api_hook(ApiHook* hook) noexcept;

enum class FromHostFunction { kRefused, kAllowed };

hipError_t enter_api(const char* function, FromHostFunction from_host_function) noexcept;
hipError_t leave_api(const char* function, hipError_t result) noexcept;

template <FromHostFunction kFrom = FromHostFunction::kRefused, class F>
hipError_t api_call(const char* function, F&& body) noexcept {
  hipError_t result = enter_api(function, kFrom);
  if (result == hipSuccess) {
    try {
      result = body();
    } catch (const std::bad_alloc&) {
      result = hipErrorOutOfMemory;
    } catch (...) {
      result = hipErrorUnknown;
    }
  }
  return leave_api(function, result);
}

// Waits for tasks without any lock, then reports what went wrong on the device.
hipError_t wait_for(Runtime& rt, const std::vector<Ref<Task>>& tasks, const Device& device);

}  // namespace hiphost

// Body of a public function, as a lambda without arguments: FMHAX_HIP_API({ … return hipSuccess; });
#define FMHAX_HIP_API(...) return ::hiphost::api_call(__func__, [&]() -> hipError_t __VA_ARGS__)
// The same for functions that host functions may call: they neither wait nor enqueue.
#define FMHAX_HIP_API_ANYWHERE(...) \
  return ::hiphost::api_call<::hiphost::FromHostFunction::kAllowed>(__func__, [&]() -> hipError_t __VA_ARGS__)
