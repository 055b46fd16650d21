/// @file Reading and writing a CallStatus that another thread may touch at the same time; for code on the CPU.
#pragma once

#include <atomic>

#include "fmhax/contract/params.hpp"

namespace fmhax {

/// The code is stored last and loaded first: whoever sees it sees the fields that belong to it.
inline void store_status(CallStatus& target, const CallStatus& status) noexcept {
  std::atomic_ref(target.side).store(status.side, std::memory_order_relaxed);
  std::atomic_ref(target.sequence).store(status.sequence, std::memory_order_relaxed);
  std::atomic_ref(target.value).store(status.value, std::memory_order_relaxed);
  std::atomic_ref(target.limit).store(status.limit, std::memory_order_relaxed);
  std::atomic_ref(target.checks).fetch_add(1, std::memory_order_relaxed);
  std::atomic_ref(target.code).store(status.code, std::memory_order_release);
}

inline CallStatus load_status(CallStatus& source) noexcept {
  CallStatus status;
  status.code = std::atomic_ref(source.code).load(std::memory_order_acquire);
  status.side = std::atomic_ref(source.side).load(std::memory_order_relaxed);
  status.sequence = std::atomic_ref(source.sequence).load(std::memory_order_relaxed);
  status.value = std::atomic_ref(source.value).load(std::memory_order_relaxed);
  status.limit = std::atomic_ref(source.limit).load(std::memory_order_relaxed);
  status.checks = std::atomic_ref(source.checks).load(std::memory_order_relaxed);
  return status;
}

}  // namespace fmhax
