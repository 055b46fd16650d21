/// @file HIP calls that throw, and owners of HIP's objects: memory, streams, events.
#pragma once

#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fmhax::train {

/// Throws std::runtime_error with the call's name and HIP's name for the error.
inline void check(hipError_t error, const char* call) {
  if (error != hipSuccess) throw std::runtime_error(std::string(call) + " failed: " + hipGetErrorName(error));
}

/// Copies to device memory. Blocks until the values are there: hipMemcpy and hipMemset alone may return while they are
/// on their way, and streams that don't synchronise with the null stream would not wait for them.
template <class T>
void upload(T* device, const std::vector<T>& values) {
  check(hipMemcpy(device, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice), "hipMemcpy");
  check(hipStreamSynchronize(nullptr), "hipStreamSynchronize");
}

/// An array in device memory, set to zero. Moves, does not copy.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t count) : count_(count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    check(hipMalloc(reinterpret_cast<void**>(&data_), bytes), "hipMalloc");
    check(hipMemset(data_, 0, bytes), "hipMemset");
    check(hipStreamSynchronize(nullptr), "hipStreamSynchronize");  // as in upload()
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) (void)hipFree(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() const noexcept { return data_; }
  std::int64_t count() const noexcept { return count_; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// Page-locked host memory, which copies to and from the device need in order to be asynchronous.
template <class T>
class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::int64_t count) {
    check(hipHostMalloc(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(count) * sizeof(T),
                        hipHostMallocDefault),
          "hipHostMalloc");
  }
  ~PinnedBuffer() { (void)hipHostFree(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  T* data() const noexcept { return data_; }

 private:
  T* data_ = nullptr;
};

/// A stream that does not synchronise with the null stream. Its end waits for the work on it, which may refer to
/// objects that end later.
class Stream {
 public:
  Stream() { check(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking), "hipStreamCreateWithFlags"); }
  ~Stream() {
    (void)hipStreamSynchronize(stream_);
    (void)hipStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  hipStream_t get() const noexcept { return stream_; }
  /// Blocks until everything enqueued so far is over. Throws what went wrong on the device.
  void wait() const { check(hipStreamSynchronize(stream_), "hipStreamSynchronize"); }

 private:
  hipStream_t stream_ = nullptr;
};

/// A place in a stream.
class Event {
 public:
  Event() { check(hipEventCreateWithFlags(&event_, hipEventDisableTiming), "hipEventCreateWithFlags"); }
  ~Event() { (void)hipEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(hipStream_t stream) const { check(hipEventRecord(event_, stream), "hipEventRecord"); }
  /// Blocks until the stream has passed the latest record(); returns at once when there was none.
  void wait() const { check(hipEventSynchronize(event_), "hipEventSynchronize"); }

 private:
  hipEvent_t event_ = nullptr;
};

}  // namespace fmhax::train
