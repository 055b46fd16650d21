#include "verification/device_buffer.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "fmhax/error.hpp"

namespace fmhax::verification {
namespace {

constexpr int kPoison = 0xFF;
constexpr int kGuardPattern = 0xA5;

/// For destructors, which can't throw.
void report_hip(hipError_t result, const char* call) noexcept {
  if (result != hipSuccess) std::fprintf(stderr, "%s failed: %s\n", call, hipGetErrorName(result));
}

}  // namespace

void check_hip(hipError_t result, const char* call) {
  if (result == hipSuccess) return;
  throw Error(ErrorCode::hip, fmt::format("{} failed: {}", call, hipGetErrorName(result)), static_cast<int>(result));
}

GuardedBuffer::GuardedBuffer(std::size_t bytes) : bytes_(bytes) {
  void* allocation = nullptr;
  check_hip(hipMalloc(&allocation, bytes_ + 2 * kGuardBytes), "hipMalloc");
  allocation_ = static_cast<std::byte*>(allocation);
  poison();
}

GuardedBuffer::~GuardedBuffer() {
  if (allocation_ != nullptr) report_hip(hipFree(allocation_), "hipFree");
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : allocation_(std::exchange(other.allocation_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(allocation_, other.allocation_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void GuardedBuffer::upload(const std::vector<std::byte>& contents) {
  if (contents.empty()) return;
  check_hip(hipMemcpy(data(), contents.data(), contents.size(), hipMemcpyHostToDevice), "hipMemcpy");
}

std::vector<std::byte> GuardedBuffer::download() const {
  std::vector<std::byte> contents(bytes_);
  if (bytes_ > 0) check_hip(hipMemcpy(contents.data(), data(), bytes_, hipMemcpyDeviceToHost), "hipMemcpy");
  return contents;
}

void GuardedBuffer::poison() {
  check_hip(hipMemset(allocation_, kGuardPattern, kGuardBytes), "hipMemset");
  if (bytes_ > 0) check_hip(hipMemset(data(), kPoison, bytes_), "hipMemset");
  check_hip(hipMemset(allocation_ + kGuardBytes + bytes_, kGuardPattern, kGuardBytes), "hipMemset");
  // hipMemset on device memory may return before it is done, and the streams here don't wait for it.
  check_hip(hipStreamSynchronize(nullptr), "hipStreamSynchronize");
}

bool GuardedBuffer::guards_are_intact() const {
  std::vector<std::byte> guards(2 * kGuardBytes);
  check_hip(hipMemcpy(guards.data(), allocation_, kGuardBytes, hipMemcpyDeviceToHost), "hipMemcpy");
  check_hip(
      hipMemcpy(guards.data() + kGuardBytes, allocation_ + kGuardBytes + bytes_, kGuardBytes, hipMemcpyDeviceToHost),
      "hipMemcpy");
  return std::all_of(guards.begin(), guards.end(),
                     [](std::byte b) { return b == static_cast<std::byte>(kGuardPattern); });
}

OwnedStream::OwnedStream() { check_hip(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking), "hipStreamCreate"); }

OwnedStream::~OwnedStream() {
  if (stream_ != nullptr) report_hip(hipStreamDestroy(stream_), "hipStreamDestroy");
}

OwnedStream::OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

void OwnedStream::synchronize() const { check_hip(hipStreamSynchronize(stream_), "hipStreamSynchronize"); }

}  // namespace fmhax::verification
