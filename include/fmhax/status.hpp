/// @file What a call found wrong with the sequence lengths that it read on the device.
#pragma once

#include <memory>
#include <string>

#include "fmhax/contract/params.hpp"

namespace fmhax {

/// A shared handle to one CallStatus in pinned host memory. Copies refer to the same status; enqueued
/// work and graphs keep it alive. Empty by default. A call's status is final once its stream has passed
/// it; before that read() gives what is known, without waiting.
class StatusBuffer {
 public:
  StatusBuffer() = default;
  /// Takes a slot of memory that lives as long as the process, and gives it back with the last copy; throws Error when
  /// there is no memory for more. Thread-safe, and legal while a stream is capturing. Neither waits for the device.
  static StatusBuffer create();

  /// A snapshot. Thread-safe; never blocks.
  CallStatus read() const noexcept;
  explicit operator bool() const noexcept { return status_ != nullptr; }
  const std::shared_ptr<CallStatus>& shared() const noexcept { return status_; }
  /// Whether both refer to the same status.
  friend bool operator==(const StatusBuffer&, const StatusBuffer&) = default;

 private:
  std::shared_ptr<CallStatus> status_;
};

/// E.g. "sequence 3 of q is longer than the declared maximum: 600 > 512"; "ok" when nothing is wrong.
std::string to_string(const CallStatus& status);
const char* to_string(StatusCode code) noexcept;

}  // namespace fmhax
