#include "memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <unistd.h>

#include "environment.hpp"
#include "guest.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define FMHAX_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FMHAX_HOST_ASAN 1
#endif
#endif
#ifdef FMHAX_HOST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace hiphost {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoisonByte = 0xFF;  // every float type reads it as NaN

std::atomic<AllocationHook*> allocation_hook{nullptr};

std::size_t rounded(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

void* obtain(std::size_t size) {
  GuestDevice* guest = guest_device();
  return guest != nullptr ? guest->allocate(size) : std::aligned_alloc(kAlignment, rounded(size));
}

void give_back(const Allocation& range) {
  if (GuestDevice* guest = guest_device()) {
    guest->release(range.pointer(), range.size);
  } else {
    std::free(range.pointer());
  }
}

void hide_tail([[maybe_unused]] void* base, [[maybe_unused]] std::size_t size) {
#ifdef FMHAX_HOST_ASAN
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(base) + size, rounded(size) - size);
#endif
}

void show_tail([[maybe_unused]] void* base, [[maybe_unused]] std::size_t size) {
#ifdef FMHAX_HOST_ASAN
  ASAN_UNPOISON_MEMORY_REGION(static_cast<char*>(base) + size, rounded(size) - size);
#endif
}

}  // namespace

void set_allocation_hook(AllocationHook* hook) noexcept { allocation_hook.store(hook, std::memory_order_release); }

MemoryMap::MemoryMap()
    : physical_bytes_(static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      poison_(environment_integer("FMHAX_HOST_POISON", 0) != 0),
      used_(static_cast<std::size_t>(environment_device_count())) {}

hipError_t MemoryMap::allocate(std::size_t size, MemoryKind kind, int device, unsigned flags, void** out) {
  if (out == nullptr) return hipErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return hipSuccess;
  if (AllocationHook* hook = allocation_hook.load(std::memory_order_acquire)) {
    if (const hipError_t refused = hook->allocating(size); refused != hipSuccess) return refused;
  }
  if (size > physical_bytes_) return hipErrorOutOfMemory;
  void* base = obtain(size);
  if (base == nullptr) return hipErrorOutOfMemory;
  if (poison_ || exploring_.load(std::memory_order_relaxed)) std::memset(base, kPoisonByte, size);
  hide_tail(base, size);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  std::lock_guard lock(mutex_);
  ranges_.emplace(address, Allocation{address, size, kind, device, flags, false});
  if (kind == MemoryKind::kDevice) used_[static_cast<std::size_t>(device)] += size;
  *out = base;
  return hipSuccess;
}

hipError_t MemoryMap::add_registered(void* base, std::size_t size, int device, unsigned flags) {
  if (base == nullptr || size == 0) return hipErrorInvalidValue;
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first - begin < size) return hipErrorHostMemoryAlreadyRegistered;
  if (locate(base) != ranges_.end()) return hipErrorHostMemoryAlreadyRegistered;
  ranges_.emplace(begin, Allocation{begin, size, MemoryKind::kRegistered, device, flags, false});
  return hipSuccess;
}

hipError_t MemoryMap::remove_registered(void* base) {
  if (base == nullptr) return hipErrorInvalidValue;
  std::lock_guard lock(mutex_);
  const auto it = ranges_.find(reinterpret_cast<std::uintptr_t>(base));
  if (it == ranges_.end() || it->second.kind != MemoryKind::kRegistered) return hipErrorHostMemoryNotRegistered;
  ranges_.erase(it);
  return hipSuccess;
}

MemoryMap::Map::const_iterator MemoryMap::locate(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return ranges_.end();
  --it;
  return address - it->first < it->second.size ? it : ranges_.end();
}

std::optional<Allocation> MemoryMap::find(const void* pointer) const {
  std::shared_lock lock(mutex_);
  const auto it = locate(pointer);
  if (it == ranges_.end()) return std::nullopt;
  return it->second;
}

hipError_t MemoryMap::check_start(const void* pointer, bool host) const {
  std::shared_lock lock(mutex_);
  const auto it = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (it == ranges_.end() || it->second.freeing) return hipErrorInvalidValue;
  const MemoryKind kind = it->second.kind;
  const bool right = host ? kind == MemoryKind::kPinned : kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
  return right ? hipSuccess : hipErrorInvalidValue;
}

hipError_t MemoryMap::begin_free(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto it = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (it == ranges_.end() || it->second.freeing) return hipErrorInvalidValue;
  it->second.freeing = true;
  return hipSuccess;
}

void MemoryMap::release(void* pointer) {
  Allocation range;
  {
    std::lock_guard lock(mutex_);
    const auto it = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (it == ranges_.end()) return;
    range = it->second;
    ranges_.erase(it);
    if (range.kind == MemoryKind::kDevice) used_[static_cast<std::size_t>(range.device)] -= range.size;
  }
  show_tail(pointer, range.size);
  if (poison_ || exploring_.load(std::memory_order_relaxed)) {
    std::memset(pointer, kPoisonByte, range.size);
    // Keeps the fill from being dropped as a dead store before free().
    asm volatile("" : : "r"(pointer) : "memory");
  }
  {
    std::lock_guard lock(mutex_);
    if (exploring_.load(std::memory_order_relaxed)) {
      freed_.push_back(range);
      return;
    }
  }
  give_back(range);
}

void MemoryMap::set_exploring(bool exploring) {
  std::vector<Allocation> freed;
  {
    std::lock_guard lock(mutex_);
    exploring_.store(exploring, std::memory_order_relaxed);
    freed.swap(freed_);
  }
  for (const Allocation& range : freed) give_back(range);
}

bool MemoryMap::was_freed(std::uintptr_t begin, std::uintptr_t end) const {
  std::shared_lock lock(mutex_);
  return std::any_of(freed_.begin(), freed_.end(),
                     [&](const Allocation& range) { return begin < range.base + range.size && range.base < end; });
}

std::size_t MemoryMap::count() const {
  std::shared_lock lock(mutex_);
  return ranges_.size();
}

std::size_t MemoryMap::total(int) const { return physical_bytes_; }

std::size_t MemoryMap::free(int device) const {
  std::shared_lock lock(mutex_);
  const std::size_t used = used_[static_cast<std::size_t>(device)];
  return used < physical_bytes_ ? physical_bytes_ - used : 0;
}

}  // namespace hiphost
