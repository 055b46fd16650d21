/// @file Side streams for host chains: a few per device, each used by one enqueueing call at a time.
#pragma once

#include <hip/hip_runtime.h>

#include <mutex>

namespace fmhax::detail {

struct SideLane {
  std::mutex mutex;  ///< held while a call enqueues, not while its work runs
  hipStream_t stream = nullptr;
  hipEvent_t fork = nullptr;
  hipEvent_t join = nullptr;
};

/// Exclusive use of one lane of the current device, which must be `device`; a free one when there is one. Lanes are
/// made at first use and live as long as the process.
class SideLaneLock {
 public:
  SideLaneLock() = default;
  explicit SideLaneLock(int device);

  const SideLane& operator*() const noexcept { return *lane_; }
  const SideLane* operator->() const noexcept { return lane_; }

 private:
  SideLane* lane_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};

/// Makes the device's lanes now, so that no call has to.
void make_side_lanes(int device);

}  // namespace fmhax::detail
