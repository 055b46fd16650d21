#include "hip_calls.hpp"

#include <fmt/format.h>

#include "fmhax/error.hpp"

namespace fmhax::detail {

void throw_hip_error(hipError_t error, const char* call) {
  (void)hipGetLastError();  // the exception carries it from here on
  const ErrorCode code = error == hipErrorOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::hip;
  throw Error(code, fmt::format("{} failed: {} ({})", call, hipGetErrorName(error), hipGetErrorString(error)),
              static_cast<int>(error));
}

namespace {

int current_device() {
  int device = 0;
  FMHAX_HIP(hipGetDevice, &device);
  return device;
}

}  // namespace

DeviceGuard::DeviceGuard(int device) : DeviceGuard(current_device(), device) {}

DeviceGuard::DeviceGuard(int current, int device) : former_(current) {
  if (former_ == device) return;
  FMHAX_HIP(hipSetDevice, device);
  changed_ = true;
}

DeviceGuard::~DeviceGuard() {
  if (changed_) (void)hipSetDevice(former_);
}

RelaxedCapture::RelaxedCapture() noexcept { exchanged_ = hipThreadExchangeStreamCaptureMode(&former_) == hipSuccess; }

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) (void)hipThreadExchangeStreamCaptureMode(&former_);
}

}  // namespace fmhax::detail
