#include "status_slots.hpp"

#include <hip/hip_runtime.h>

#include <mutex>
#include <new>
#include <utility>

#include "hip_calls.hpp"

namespace fmhax::detail {
namespace {

constexpr std::size_t kSlots = 64;  ///< in one allocation

union Slot {
  CallStatus status;
  Slot* next_free;
};

struct Slots {
  std::mutex mutex;
  Slot* free = nullptr;
};

Slots& slots() {
  static Slots& instance = *new Slots;  // never destroyed: statuses may outlive everything
  return instance;
}

void add_slots(Slots& all) {
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  FMHAX_HIP(hipHostMalloc, &memory, kSlots * sizeof(Slot), hipHostMallocPortable | hipHostMallocMapped);
  auto* first = static_cast<Slot*>(memory);
  for (std::size_t i = 0; i < kSlots; ++i) all.free = new (first + i) Slot{.next_free = all.free};
}

}  // namespace

CallStatus* take_status_slot() {
  Slots& all = slots();
  const std::lock_guard lock(all.mutex);
  if (all.free == nullptr) add_slots(all);
  Slot* slot = std::exchange(all.free, all.free->next_free);
  return new (&slot->status) CallStatus{};
}

void give_status_slot(CallStatus* slot) noexcept {
  Slots& all = slots();
  const std::lock_guard lock(all.mutex);
  all.free = new (static_cast<void*>(slot)) Slot{.next_free = all.free};
}

}  // namespace fmhax::detail
