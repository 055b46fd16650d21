#include "row_locks.hpp"

#include <atomic>
#include <thread>

namespace fmhax::cpu {
namespace {

constexpr std::uint32_t kLocks = 1024;
constexpr int kSpins = 200;  // then let others run: the holder may have been preempted

struct alignas(64) PaddedLock {
  std::atomic<bool> is_held{false};
};

PaddedLock locks[kLocks];

std::uint32_t index_of(const float* tile) {
  const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(tile) * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint32_t>(hash >> 32) % kLocks;
}

}  // namespace

RowLock::RowLock(const float* tile) noexcept : index_(index_of(tile)) {
  std::atomic<bool>& lock = locks[index_].is_held;
  int spins = 0;
  while (lock.exchange(true, std::memory_order_acquire)) {
    while (lock.load(std::memory_order_relaxed)) {
      if (++spins > kSpins) std::this_thread::yield();
    }
  }
}

RowLock::~RowLock() { locks[index_].is_held.store(false, std::memory_order_release); }

}  // namespace fmhax::cpu
