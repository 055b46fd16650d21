#include "step_log.hpp"

#include <stdexcept>

namespace fmhax::train {

void StepLog::enqueue(const StepRecord* record, hipStream_t stream) {
  check(hipMemcpyAsync(arriving_.data(), record, sizeof(StepRecord), hipMemcpyDeviceToHost, stream), "hipMemcpyAsync");
  check(hipLaunchHostFunc(
            stream, [](void* self) { static_cast<StepLog*>(self)->publish(); }, this),
        "hipLaunchHostFunc");
}

void StepLog::publish() noexcept {
  const std::int64_t count = published_.load(std::memory_order_relaxed);
  ring_[static_cast<std::size_t>(count % kRing)] = *arriving_.data();
  published_.store(count + 1, std::memory_order_release);
}

std::vector<StepRecord> StepLog::take_published() {
  const std::int64_t published = published_.load(std::memory_order_acquire);
  if (published - taken_ > kRing) throw std::logic_error("the step log was read too seldom");
  std::vector<StepRecord> records;
  for (; taken_ < published; ++taken_) records.push_back(ring_[static_cast<std::size_t>(taken_ % kRing)]);
  return records;
}

}  // namespace fmhax::train
