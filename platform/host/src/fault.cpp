#include <hiphost/fault.hpp>

#include <atomic>
#include <string_view>
#include <thread>

#include "api.hpp"
#include "memory.hpp"

namespace hiphost {
namespace {

bool only_reports(std::string_view function) {
  return function == "hipGetLastError" || function == "hipPeekAtLastError" || function == "hipExtGetLastError";
}

bool allocates(std::string_view function) {
  return function.find("Malloc") != std::string_view::npos || function.find("HostAlloc") != std::string_view::npos;
}

}  // namespace

class FaultCounter final : public ApiHook, public AllocationHook {
 public:
  explicit FaultCounter(FaultPlan plan) : plan_(std::move(plan)) {}

  hipError_t entered(const char* function) noexcept override {
    if (!counts() || only_reports(function)) return hipSuccess;
    if (!plan_.function.empty() && plan_.function != function) return hipSuccess;
    if (calls_.fetch_add(1, std::memory_order_relaxed) + 1 != plan_.call) return hipSuccess;
    failed_.store(function, std::memory_order_release);
    return error(allocates(function));
  }

  hipError_t allocating(std::size_t) noexcept override {
    if (!counts() || allocations_.fetch_add(1, std::memory_order_relaxed) + 1 != plan_.allocation) return hipSuccess;
    failed_.store("allocation", std::memory_order_release);
    return error(true);
  }

  std::atomic<bool> suspended{false};
  std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  std::uint64_t allocations() const noexcept { return allocations_.load(std::memory_order_relaxed); }
  const char* failed() const noexcept { return failed_.load(std::memory_order_acquire); }

 private:
  bool counts() const noexcept {
    if (suspended.load(std::memory_order_relaxed)) return false;
    return !plan_.this_thread_only || thread_ == std::this_thread::get_id();
  }
  hipError_t error(bool of_allocation) const noexcept {
    if (plan_.error != hipSuccess) return plan_.error;
    return of_allocation ? hipErrorOutOfMemory : hipErrorUnknown;
  }

  const FaultPlan plan_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<const char*> failed_{nullptr};
};

LiveObjects live_objects() {
  Runtime& rt = runtime();
  const Lock lock(rt.mutex);
  return {rt.streams.size(), rt.events.size(),       rt.graphs.size(),
          rt.execs.size(),   rt.user_objects.size(), rt.memory.count()};
}

FaultInjection::FaultInjection(FaultPlan plan) : counter_(std::make_unique<FaultCounter>(std::move(plan))) {
  set_api_hook(counter_.get());
  set_allocation_hook(counter_.get());
}

FaultInjection::~FaultInjection() {
  set_api_hook(nullptr);
  set_allocation_hook(nullptr);
}

void FaultInjection::suspend() noexcept { counter_->suspended.store(true, std::memory_order_relaxed); }
void FaultInjection::resume() noexcept { counter_->suspended.store(false, std::memory_order_relaxed); }
std::uint64_t FaultInjection::calls() const noexcept { return counter_->calls(); }
std::uint64_t FaultInjection::allocations() const noexcept { return counter_->allocations(); }
const char* FaultInjection::failed() const noexcept { return counter_->failed(); }

}  // namespace hiphost
