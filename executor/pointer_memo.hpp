/// @file Pointers that were found to be device memory, so that a call does not ask the runtime about each of its
/// buffers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fmhax::detail {

/// A set that forgets when it is full. A pointer stays in it when its memory is freed: what is passed then by mistake
/// is not found out, as it could not be when the memory were freed a moment after the check. Thread-safe, without
/// locks.
class PointerMemo {
 public:
  bool contains(const void* pointer) const noexcept {
    if (pointer == nullptr) return false;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      if (slot(pointer, i).load(std::memory_order_relaxed) == pointer) return true;
    }
    return false;
  }
  void add(const void* pointer) noexcept {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      const void* empty = nullptr;
      if (slot(pointer, i).compare_exchange_strong(empty, pointer, std::memory_order_relaxed)) return;
    }
    slot(pointer, 0).store(pointer, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kSlots = 2048;  // a model's layers share a plan; each brings a dozen buffers
  static constexpr std::size_t kPlaces = 4;    // where one pointer may be

  static std::size_t index_of(const void* pointer, std::size_t place) noexcept {
    // The multiplier of Knuth's multiplicative hashing for 64 bits, floor(2^64 / golden ratio), made odd.
    const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(pointer) * 0x9E3779B97F4A7C15U;
    return (static_cast<std::size_t>(mixed >> 32) + place) % kSlots;
  }
  const std::atomic<const void*>& slot(const void* pointer, std::size_t place) const noexcept {
    return slots_[index_of(pointer, place)];
  }
  std::atomic<const void*>& slot(const void* pointer, std::size_t place) noexcept {
    return slots_[index_of(pointer, place)];
  }

  std::array<std::atomic<const void*>, kSlots> slots_{};
};

}  // namespace fmhax::detail
