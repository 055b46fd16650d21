/// @file Owners of HIP's objects as std::unique_ptr, and HIP errors as exceptions.
#pragma once

#include <hip/hip_runtime.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace fmhax::sample {

/// Throws std::runtime_error with the call's name and HIP's name for the error.
inline void check(hipError_t error, const char* call) {
  if (error != hipSuccess) throw std::runtime_error(std::string(call) + ": " + hipGetErrorName(error));
}

template <auto kRelease>
struct Releaser {
  template <class T>
  void operator()(T* object) const noexcept {
    (void)kRelease(object);
  }
};

using Stream = std::unique_ptr<std::remove_pointer_t<hipStream_t>, Releaser<hipStreamDestroy>>;
using Event = std::unique_ptr<std::remove_pointer_t<hipEvent_t>, Releaser<hipEventDestroy>>;
using DeviceBytes = std::unique_ptr<std::byte, Releaser<hipFree>>;
using PinnedBytes = std::unique_ptr<std::byte, Releaser<hipHostFree>>;

/// A stream that does not synchronise with the null stream.
inline Stream make_stream() {
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  return Stream(stream);
}

/// An event that takes the time.
inline Event make_event() {
  hipEvent_t event = nullptr;
  check(hipEventCreate(&event), "hipEventCreate");
  return Event(event);
}

inline DeviceBytes make_device_bytes(std::size_t size) {
  void* memory = nullptr;
  check(hipMalloc(&memory, size), "hipMalloc");
  return DeviceBytes(static_cast<std::byte*>(memory));
}

inline PinnedBytes make_pinned_bytes(std::size_t size) {
  void* memory = nullptr;
  check(hipHostMalloc(&memory, size, hipHostMallocDefault), "hipHostMalloc");
  return PinnedBytes(static_cast<std::byte*>(memory));
}

}  // namespace fmhax::sample
