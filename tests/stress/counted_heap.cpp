#include "counted_heap.hpp"

#include <cstdlib>
#include <new>

namespace {

struct HeapCount {
  bool is_watched = false;
  int runtime_depth = 0;
  std::uint64_t allocations = 0;
};
constinit thread_local HeapCount heap;

void* counted(std::size_t bytes, std::size_t alignment) {
  if (heap.is_watched && heap.runtime_depth == 0) ++heap.allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace fmhax::test {

HeapWatch::HeapWatch() { heap = {true, 0, 0}; }
HeapWatch::~HeapWatch() { heap = {}; }
std::uint64_t HeapWatch::allocations() const noexcept { return heap.allocations; }

void entered_runtime() noexcept { ++heap.runtime_depth; }
void left_runtime() noexcept { --heap.runtime_depth; }

}  // namespace fmhax::test
