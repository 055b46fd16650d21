/// @file How the loss gets from the device to the host without the host waiting for it.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "hip_objects.hpp"
#include "kernels.hpp"

namespace fmhax::train {

/// The last operations of a step: a copy into pinned memory, and a host function that puts the copy into a ring and
/// counts it. The ring is needed because a captured copy always writes to the same address.
/// One thread enqueues and reads; the step's host function runs on a thread of the runtime.
class StepLog {
 public:
  static constexpr std::int64_t kRing = 64;  ///< more than the steps that may be under way

  StepLog() = default;
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// Enqueues the copy of a record in device memory and its publication. *this must outlive them, and any graph that
  /// captures them.
  void enqueue(const StepRecord* record, hipStream_t stream);

  /// The records that were published since the last call, in order. Never waits.
  /// Throws std::logic_error when the reader fell so far behind that some were lost.
  std::vector<StepRecord> take_published();

 private:
  void publish() noexcept;

  PinnedBuffer<StepRecord> arriving_{1};  ///< free again when publish() returns, and with it the stream goes on
  std::array<StepRecord, kRing> ring_;
  std::atomic<std::int64_t> published_ = 0;
  std::int64_t taken_ = 0;
};

}  // namespace fmhax::train
