#include "host_cost.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<hiphost/observe.hpp>)
#include <hiphost/observe.hpp>

#include <atomic>
#include <thread>
#define FMHAX_CAN_OBSERVE_HIP 1
#else
#define FMHAX_CAN_OBSERVE_HIP 0
#endif

namespace fmhax::tool {

InstructionCounter::InstructionCounter() {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  constexpr int kThisThread = 0, kAnyProcessor = -1, kNoGroup = -1;
  constexpr unsigned long kNoFlags = 0;
  file_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, kThisThread, kAnyProcessor, kNoGroup, kNoFlags));
}

InstructionCounter::~InstructionCounter() {
  if (file_ >= 0) (void)close(file_);
}

std::optional<std::uint64_t> InstructionCounter::read() const {
  std::uint64_t count = 0;
  if (file_ < 0 || ::read(file_, &count, sizeof count) != static_cast<ssize_t>(sizeof count)) return std::nullopt;
  return count;
}

#if FMHAX_CAN_OBSERVE_HIP
namespace {

class CallCounter final : public hiphost::ApiObserver {
 public:
  void entered(const char*) noexcept override {
    if (std::this_thread::get_id() == thread_) ++calls_;
  }
  void left(const char*, hipError_t) noexcept override {}
  std::uint64_t calls() const { return calls_; }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::uint64_t calls_ = 0;
};

}  // namespace

std::optional<std::uint64_t> hip_calls_of(const std::function<void()>& work) {
  CallCounter counter;
  const hiphost::ApiObservation observation(counter);
  work();
  return counter.calls();
}
#else
std::optional<std::uint64_t> hip_calls_of(const std::function<void()>& work) {
  work();
  return std::nullopt;
}
#endif

}  // namespace fmhax::tool
