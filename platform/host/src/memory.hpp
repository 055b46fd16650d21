// Every range of memory that the runtime knows, and what kind it is.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace hiphost {

// Sees each allocation before it is made. What it returns, unless hipSuccess, is the allocation's result.
class AllocationHook {
 public:
  virtual ~AllocationHook() = default;
  virtual hipError_t allocating(std::size_t size) noexcept = 0;
};

// Null for none. The hook must outlive all calls.
void set_allocation_hook(AllocationHook* hook) noexcept;

enum class MemoryKind : std::uint8_t { kPinned, kRegistered, kDevice, kManaged };

struct Allocation {
  std::uintptr_t base = 0;
  std::size_t size = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  unsigned flags = 0;
  bool freeing = false;  // hipFreeAsync was called; the bytes live until the stream gets there

  void* pointer() const noexcept { return reinterpret_cast<void*>(base); }
  bool host_accessible() const noexcept { return kind != MemoryKind::kDevice; }
};

// Thread-safe. Addresses are aligned to 256 bytes and each block ends where its size says, as far as a sanitizer is
// concerned.
class MemoryMap {
 public:
  MemoryMap();

  // Null for size 0.
  hipError_t allocate(std::size_t size, MemoryKind kind, int device, unsigned flags, void** out);
  hipError_t add_registered(void* base, std::size_t size, int device, unsigned flags);
  hipError_t remove_registered(void* base);

  // The range that holds `pointer`; it may be one that is being freed.
  std::optional<Allocation> find(const void* pointer) const;
  // hipErrorInvalidValue unless `pointer` is the start of a range of the kinds asked for.
  hipError_t check_start(const void* pointer, bool host) const;
  // Marks the range as unusable for later calls; release() ends it.
  hipError_t begin_free(void* pointer);
  void release(void* pointer);

  // While exploring, all memory is poisoned and freed memory is kept from use; the end gives it back.
  void set_exploring(bool exploring);
  // Whether any of these bytes belong to memory that was freed since exploring began.
  bool was_freed(std::uintptr_t begin, std::uintptr_t end) const;

  std::size_t count() const;  // of ranges
  std::size_t total(int device) const;
  std::size_t free(int device) const;

 private:
  using Map = std::map<std::uintptr_t, Allocation>;
  Map::const_iterator locate(const void* pointer) const;

  mutable std::shared_mutex mutex_;
  Map ranges_;
  std::size_t physical_bytes_;
  const bool poison_;
  std::atomic<bool> exploring_{false};
  std::vector<Allocation> freed_;  // while exploring; not yet given back
  std::vector<std::size_t> used_;  // bytes, by device
};

}  // namespace hiphost
