#include "api.hpp"

#include <atomic>

#include "explorer.hpp"

namespace hiphost {
namespace {

std::atomic<ApiHook*> api_hook{nullptr};

}  // namespace

void set_api_hook(ApiHook* hook) noexcept { api_hook.store(hook, std::memory_order_release); }

hipError_t enter_api(const char* function, FromHostFunction from_host_function) noexcept {
  if (ApiHook* hook = api_hook.load(std::memory_order_acquire)) {
    if (const hipError_t result = hook->entered(function); result != hipSuccess) return result;
  }
  if (Explorer* explorer = exploring(); explorer != nullptr && thread_state.host_function_depth == 0) {
    explorer->pause(function);
  }
  if (from_host_function == FromHostFunction::kAllowed) return hipSuccess;
  if (thread_state.host_function_depth != 0) return hipErrorNotSupported;
  return runtime().devices.empty() ? hipErrorNoDevice : hipSuccess;
}

hipError_t leave_api(const char* function, hipError_t result) noexcept {
  if (ApiHook* hook = api_hook.load(std::memory_order_acquire)) hook->left(function, result);
  thread_state.last_result = result;
  if (result != hipSuccess && result != hipErrorNotReady) thread_state.last_error = result;
  return result;
}

hipError_t wait_for(Runtime& rt, const std::vector<Ref<Task>>& tasks, const Device& device) {
  for (const Ref<Task>& task : tasks) {
    if (!rt.scheduler.wait(*task)) return hipErrorDeinitialized;
  }
  return device.failure.load(std::memory_order_acquire);
}

}  // namespace hiphost
