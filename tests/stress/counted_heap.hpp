/// @file Counts what this program's code allocates on the heap, thread by thread.
#pragma once

#include <cstdint>

namespace fmhax::test {

/// Allocations by operator new on the current thread while a HeapWatch lives on it, but for those inside HIP calls,
/// whose heap is the runtime's own affair.
class HeapWatch {
 public:
  HeapWatch();
  ~HeapWatch();
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;

  std::uint64_t allocations() const noexcept;
};

/// To be told of the current thread's HIP calls, so that they don't count.
void entered_runtime() noexcept;
void left_runtime() noexcept;

}  // namespace fmhax::test
