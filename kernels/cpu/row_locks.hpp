/// @file Mutual exclusion of blocks that add to the same rows of dq_acc.
#pragma once

#include <cstdint>

namespace fmhax::cpu {

/// Holds the lock of one tile of dq_acc, identified by its address. A lock may stand for several tiles; none is
/// held for longer than it takes to add one tile. Adding whole tiles of floats under a lock costs a tenth of
/// adding them with a compare-and-swap each.
class RowLock {
 public:
  explicit RowLock(const float* tile) noexcept;
  ~RowLock();
  RowLock(const RowLock&) = delete;
  RowLock& operator=(const RowLock&) = delete;

 private:
  std::uint32_t index_;
};

}  // namespace fmhax::cpu
