#include "side_lane.hpp"

#include <array>
#include <atomic>
#include <map>
#include <memory>

#include "hip_calls.hpp"

namespace fmhax::detail {
namespace {

/// Enough that callers on different streams seldom share one, few enough to cost nothing.
constexpr std::size_t kLanes = 4;

struct DeviceLanes {
  std::array<SideLane, kLanes> lanes;
  std::atomic<std::size_t> next{0};
};

void make_lane(SideLane& lane) {
  const RelaxedCapture relaxed;
  if (lane.fork == nullptr) FMHAX_HIP(hipEventCreateWithFlags, &lane.fork, hipEventDisableTiming);
  if (lane.join == nullptr) FMHAX_HIP(hipEventCreateWithFlags, &lane.join, hipEventDisableTiming);
  if (lane.stream == nullptr) FMHAX_HIP(hipStreamCreateWithFlags, &lane.stream, hipStreamNonBlocking);
}

DeviceLanes& lanes_of(int device) {
  // Never destroyed: at exit the runtime may be gone first.
  static std::mutex& mutex = *new std::mutex;
  static auto& lanes = *new std::map<int, std::unique_ptr<DeviceLanes>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<DeviceLanes>& entry = lanes[device];
  if (!entry) entry = std::make_unique<DeviceLanes>();
  return *entry;
}

}  // namespace

SideLaneLock::SideLaneLock(int device) {
  DeviceLanes& all = lanes_of(device);
  const std::size_t first = all.next.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kLanes && !lock_.owns_lock(); ++i) {
    lane_ = &all.lanes[(first + i) % kLanes];
    lock_ = std::unique_lock(lane_->mutex, std::try_to_lock);
  }
  if (!lock_.owns_lock()) {
    lane_ = &all.lanes[first % kLanes];
    lock_ = std::unique_lock(lane_->mutex);
  }
  if (lane_->stream == nullptr) make_lane(*lane_);
}

void make_side_lanes(int device) {
  for (SideLane& lane : lanes_of(device).lanes) {
    const std::lock_guard lock(lane.mutex);
    make_lane(lane);
  }
}

}  // namespace fmhax::detail
