/// @file Pinned staging and whatever else must outlive enqueued work: lent out, and taken back once an
/// event at the stream's tail has passed.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "fmhax/contract/params.hpp"

namespace fmhax::detail {

class StagingPool;

/// Something that enqueued work refers to. Owned by its pool; in use by one call or graph at a time.
struct StagingBlock {
  StagingPool* pool = nullptr;
  void* memory = nullptr;    ///< pinned; the pool's, or external.get(), or null for a block without bytes
  std::size_t capacity = 0;  ///< bytes of the pool's own memory, 0 without
  hipEvent_t event = nullptr;
  std::optional<hipStream_t> stream;   ///< that the pool recorded the event on; none where it was not the pool
  std::shared_ptr<void> external;      ///< the caller's pinned memory
  std::shared_ptr<void> pieces;        ///< of a graph that is gone; letting go of them may wait for the device
  std::shared_ptr<CallStatus> status;  ///< kept alive until the block serves another call
  StagingBlock* next = nullptr;
};

using PinnedAllocator = std::function<std::shared_ptr<void>(std::size_t)>;

struct StagingPoolCounters {
  std::size_t blocks = 0;        ///< made since the start
  std::size_t pinned_bytes = 0;  ///< of the pool's own memory
  std::size_t in_use = 0;        ///< lent out: held by a call or graph, or in flight
};

/// A device's staging, shared by all executors, as caching allocators are. Lives as long as the process: freeing pinned
/// memory waits for the device. Thread-safe. Host functions may only call hand_back().
class StagingPool {
 public:
  /// The pool of the current device, which must be `device`.
  static StagingPool& of_device(int device);

  StagingPool() = default;
  /// Frees what is home. Nothing may be in use.
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  /// A block with at least `bytes` of pinned memory (none for 0), from `allocator` when that is set.
  /// Legal while any stream captures. Throws Error, or what the allocator throws.
  StagingBlock* acquire(std::size_t bytes, const PinnedAllocator& allocator);

  /// Takes the block back once the work now on `stream` has passed, or with give_up() when that can't be recorded.
  void release_after_stream(StagingBlock* block, hipStream_t stream) noexcept;
  /// For a block whose work no event follows: only take_back_given_up() takes it back.
  void give_up(StagingBlock* block) noexcept;
  /// Takes the block back once its own event, recorded by the owner, has passed.
  void release_after_event(StagingBlock* block) noexcept;
  /// Takes the block back now. Lock-free and free of HIP calls: the one thing that a host function or a user
  /// object's destructor does. What the block keeps alive is let go later, by a thread that acquires or collects.
  static void hand_back(StagingBlock* block) noexcept;

  /// Makes finished blocks free again, but for those with pieces, which are put aside. Never waits. acquire() does it
  /// when no block is free, or memory of a caller's may be waiting to be let go.
  void recycle() noexcept;
  /// Lets go of everything that is no longer in flight. May wait for the device where graphs' pieces are among it.
  void collect() noexcept;
  /// Waits for the current device, which must be the pool's, where blocks were given up: a capture would be invalidated
  /// by that, in any mode.
  void take_back_given_up() noexcept;
  StagingPoolCounters counters() const noexcept;

 private:
  static constexpr std::size_t kSizeClasses = 64;

  StagingBlock* take_free(std::size_t size_class) noexcept;
  /// Takes finished blocks home, but for those that keep something alive, which it returns.
  StagingBlock* take_finished() noexcept;
  /// Under the lock: frees the block, or adds it to `guests` when it keeps something alive.
  void take_home(StagingBlock* block, StagingBlock*& guests) noexcept;
  void put_in_flight(StagingBlock* block) noexcept;
  StagingBlock* make_block(std::size_t size_class);

  mutable std::mutex mutex_;
  std::array<StagingBlock*, kSizeClasses> free_{};  ///< by size class
  StagingBlock* in_flight_ = nullptr;               ///< oldest first
  StagingBlock** in_flight_end_ = &in_flight_;
  std::atomic<StagingBlock*> handed_back_{nullptr};
  StagingBlock* with_pieces_ = nullptr;  ///< finished; for collect()
  StagingBlock* given_up_ = nullptr;
  StagingPoolCounters counters_{};
};

/// Hands its block back when an error passes before anything was enqueued.
class StagingLease {
 public:
  StagingLease() = default;
  explicit StagingLease(StagingBlock* block) : block_(block) {}
  ~StagingLease() {
    if (block_ != nullptr) StagingPool::hand_back(block_);
  }
  StagingLease(StagingLease&& other) noexcept : block_(other.detach()) {}
  StagingLease& operator=(StagingLease&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  StagingLease(const StagingLease&) = delete;
  StagingLease& operator=(const StagingLease&) = delete;

  StagingBlock* get() const noexcept { return block_; }
  StagingBlock* operator->() const noexcept { return block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  StagingBlock* detach() noexcept { return std::exchange(block_, nullptr); }

 private:
  StagingBlock* block_ = nullptr;
};

}  // namespace fmhax::detail
