/// @file Device memory that notices what a kernel does to its surroundings.
#pragma once

#include <hip/hip_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fmhax::verification {

/// Throws fmhax::Error(hip) unless `result` is hipSuccess; `call` names the call.
void check_hip(hipError_t result, const char* call);

/// Owns `bytes` of device memory between two guard zones. Contents start as 0xFF bytes, which is NaN in
/// every floating-point type. Only moves.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  explicit GuardedBuffer(std::size_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// Device address of the contents, 256-byte aligned; valid (and not to be read) when bytes() is 0.
  void* data() const { return allocation_ == nullptr ? nullptr : allocation_ + kGuardBytes; }
  std::size_t bytes() const { return bytes_; }

  /// Blocking copies of all contents.
  void upload(const std::vector<std::byte>& contents);
  std::vector<std::byte> download() const;
  /// Sets all contents to 0xFF and the guard zones to their pattern. Blocking.
  void poison();
  /// Whether both guard zones still hold their pattern. Blocking.
  bool guards_are_intact() const;

 private:
  static constexpr std::size_t kGuardBytes = 256;

  std::byte* allocation_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A stream that belongs to nobody else. Only moves.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept;
  OwnedStream& operator=(OwnedStream&&) = delete;
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  hipStream_t get() const { return stream_; }
  /// Waits until everything on the stream is done; throws when any of it failed.
  void synchronize() const;

 private:
  hipStream_t stream_ = nullptr;
};

}  // namespace fmhax::verification
