#include "staging_pool.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <span>

#include "fmhax/error.hpp"
#include "hip_calls.hpp"

namespace fmhax::detail {
namespace {

/// Blocks of class c hold 2^c bytes; class 0 holds none.
std::size_t size_class_of(std::size_t bytes) {
  constexpr std::size_t kSmallest = 8;  // 256 bytes
  if (bytes == 0) return 0;
  return std::max<std::size_t>(kSmallest, static_cast<std::size_t>(std::bit_width(bytes - 1)));
}

/// Blocks to look at that are not finished. A stream far behind must not hide finished blocks of others.
constexpr int kUnfinishedToSkip = 64;

/// Streams that are behind. What follows an unfinished event on its stream is not finished either, and isn't asked
/// about.
class StreamsBehind {
 public:
  bool contains(hipStream_t stream) const {
    const std::span known(streams_.data(), count_);
    return std::find(known.begin(), known.end(), stream) != known.end();
  }
  void add(hipStream_t stream) {
    if (!is_full()) streams_[count_++] = stream;
  }
  bool is_full() const { return count_ == streams_.size(); }

 private:
  std::array<hipStream_t, 16> streams_{};
  std::size_t count_ = 0;
};

}  // namespace

StagingPool& StagingPool::of_device(int device) {
  // Never destroyed: at exit the runtime may be gone before the last block is.
  static std::mutex& mutex = *new std::mutex;
  static auto& pools = *new std::map<int, std::unique_ptr<StagingPool>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<StagingPool>& pool = pools[device];
  if (!pool) pool = std::make_unique<StagingPool>();
  return *pool;
}

StagingPool::~StagingPool() {
  collect();
  for (StagingBlock* list : free_) {
    while (list != nullptr) {
      const std::unique_ptr<StagingBlock> block(std::exchange(list, list->next));
      (void)hipEventDestroy(block->event);
      if (block->capacity > 0) (void)hipHostFree(block->memory);
    }
  }
}

StagingBlock* StagingPool::acquire(std::size_t bytes, const PinnedAllocator& allocator) {
  if (allocator) recycle();  // its memory of before may be waited for
  const std::size_t size_class = allocator ? 0 : size_class_of(bytes);
  StagingBlock* block = take_free(size_class);
  if (block == nullptr && !allocator) {
    recycle();
    block = take_free(size_class);
  }
  if (block == nullptr) block = make_block(size_class);
  if (allocator && bytes > 0) {
    const RelaxedCapture relaxed;
    StagingLease lease(block);
    block->external = allocator(bytes);
    block->memory = block->external.get();
    if (block->memory == nullptr) {
      throw Error(ErrorCode::out_of_memory,
                  "pinned_host_alloc returned no memory for " + std::to_string(bytes) + " bytes");
    }
    (void)lease.detach();
  }
  return block;
}

StagingBlock* StagingPool::take_free(std::size_t size_class) noexcept {
  const std::lock_guard lock(mutex_);
  StagingBlock* block = free_[size_class];
  if (block == nullptr) return nullptr;
  free_[size_class] = std::exchange(block->next, nullptr);
  ++counters_.in_use;
  return block;
}

StagingBlock* StagingPool::make_block(std::size_t size_class) {
  const RelaxedCapture relaxed;
  auto block = std::make_unique<StagingBlock>();
  block->pool = this;
  FMHAX_HIP(hipEventCreateWithFlags, &block->event, hipEventDisableTiming);
  if (size_class > 0) {
    block->capacity = std::size_t{1} << size_class;
    const hipError_t error = hipHostMalloc(&block->memory, block->capacity, hipHostMallocDefault);
    if (error != hipSuccess) {
      (void)hipEventDestroy(block->event);
      throw_hip_error(error, "hipHostMalloc");
    }
  }
  const std::lock_guard lock(mutex_);
  ++counters_.blocks;
  counters_.pinned_bytes += block->capacity;
  ++counters_.in_use;
  return block.release();
}

void StagingPool::release_after_stream(StagingBlock* block, hipStream_t stream) noexcept {
  if (hipEventRecord(block->event, stream) != hipSuccess) {
    (void)hipGetLastError();
    return give_up(block);
  }
  block->stream = stream;
  put_in_flight(block);
}

void StagingPool::give_up(StagingBlock* block) noexcept {
  const std::lock_guard lock(mutex_);
  block->next = std::exchange(given_up_, block);
}

void StagingPool::take_back_given_up() noexcept {
  StagingBlock* list = nullptr;
  {
    const std::lock_guard lock(mutex_);
    list = std::exchange(given_up_, nullptr);
  }
  if (list == nullptr) return;
  const bool is_idle = hipDeviceSynchronize() == hipSuccess;
  if (!is_idle) (void)hipGetLastError();
  while (list != nullptr) {
    StagingBlock* block = list;
    list = block->next;
    is_idle ? hand_back(block) : give_up(block);
  }
}

void StagingPool::release_after_event(StagingBlock* block) noexcept {
  block->stream.reset();
  put_in_flight(block);
}

void StagingPool::put_in_flight(StagingBlock* block) noexcept {
  block->next = nullptr;
  const std::lock_guard lock(mutex_);
  *in_flight_end_ = block;
  in_flight_end_ = &block->next;
}

void StagingPool::hand_back(StagingBlock* block) noexcept {
  std::atomic<StagingBlock*>& head = block->pool->handed_back_;
  block->next = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void StagingPool::take_home(StagingBlock* block, StagingBlock*& guests) noexcept {
  if (block->external != nullptr || block->pieces != nullptr) {
    block->next = std::exchange(guests, block);
    return;
  }
  if (block->capacity == 0) block->memory = nullptr;
  block->next = std::exchange(free_[size_class_of(block->capacity)], block);
  --counters_.in_use;
}

StagingBlock* StagingPool::take_finished() noexcept {
  StagingBlock* guests = nullptr;
  StagingBlock* handed_back = handed_back_.exchange(nullptr, std::memory_order_acquire);
  // Blocks go home under one lock, so that no other thread finds none free meanwhile, and makes one.
  const std::lock_guard lock(mutex_);
  while (handed_back != nullptr) take_home(std::exchange(handed_back, handed_back->next), guests);
  if (in_flight_ == nullptr) return guests;
  const RelaxedCapture relaxed;
  StreamsBehind behind;
  int unfinished = 0;
  StagingBlock** link = &in_flight_;
  while (*link != nullptr && unfinished < kUnfinishedToSkip && !behind.is_full()) {
    StagingBlock* block = *link;
    const bool is_behind = block->stream && behind.contains(*block->stream);
    // An error of the query says nothing of the work: the block stays in flight.
    if (is_behind || hipEventQuery(block->event) != hipSuccess) {
      ++unfinished;
      if (!is_behind && block->stream) behind.add(*block->stream);
      link = &block->next;
      continue;
    }
    *link = block->next;
    if (*link == nullptr) in_flight_end_ = link;
    take_home(block, guests);
  }
  if (unfinished > 0) (void)hipGetLastError();
  return guests;
}

void StagingPool::recycle() noexcept {
  StagingBlock* guests = take_finished();
  while (guests != nullptr) {
    StagingBlock* block = std::exchange(guests, guests->next);
    if (block->pieces == nullptr) {
      // May run the caller's code, so no lock is held.
      const RelaxedCapture relaxed;
      block->external.reset();
    }
    const std::lock_guard lock(mutex_);
    if (block->pieces != nullptr) {
      block->next = std::exchange(with_pieces_, block);
    } else {
      StagingBlock* none = nullptr;
      take_home(block, none);
    }
  }
}

void StagingPool::collect() noexcept {
  const RelaxedCapture relaxed;
  recycle();
  StagingBlock* list = nullptr;
  {
    const std::lock_guard lock(mutex_);
    list = std::exchange(with_pieces_, nullptr);
  }
  while (list != nullptr) {
    StagingBlock* block = list;
    list = block->next;
    block->pieces.reset();
    hand_back(block);
  }
  recycle();
}

StagingPoolCounters StagingPool::counters() const noexcept {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace fmhax::detail
