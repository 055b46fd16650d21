/// @file HIP calls that throw, and guards for the thread's state in HIP.
#pragma once

#include <hip/hip_runtime.h>

#include <string>

namespace fmhax::detail {

/// Throws Error(hip) with the call's name and HIP's own name for the error.
[[noreturn]] void throw_hip_error(hipError_t error, const char* call);

inline void check_hip(hipError_t error, const char* call) {
  if (error != hipSuccess) throw_hip_error(error, call);
}

/// Calls a HIP function and throws when it fails: FMHAX_HIP(hipMemsetAsync, pointer, 0, bytes, stream).
#define FMHAX_HIP(function, ...) ::fmhax::detail::check_hip(function(__VA_ARGS__), #function)

/// Makes a device current and restores the former one, also when an exception passes.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  /// The same where the current device is known.
  DeviceGuard(int current, int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_ = 0;
  bool changed_ = false;
};

/// While it lives, this thread may allocate and query events although some stream captures in global or
/// thread-local mode: neither this thread's calls nor that capture are disturbed.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  hipStreamCaptureMode former_ = hipStreamCaptureModeRelaxed;
  bool exchanged_ = false;
};

}  // namespace fmhax::detail
