#include "work.hpp"

#include <cstring>

#include "runtime.hpp"

namespace hiphost {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

void copy(const CopyWork& work) noexcept {
  auto* dst = static_cast<std::byte*>(work.dst);
  const auto* src = static_cast<const std::byte*>(work.src);
  if (work.width == 0) return;
  for (std::size_t z = 0; z < work.depth; ++z) {
    for (std::size_t y = 0; y < work.height; ++y) {
      std::memmove(dst + z * work.dst_slice + y * work.dst_pitch, src + z * work.src_slice + y * work.src_pitch,
                   work.width);
    }
  }
}

template <class T>
void fill_row(std::byte* row, std::size_t width, std::uint32_t value) noexcept {
  const T element = static_cast<T>(value);
  for (std::size_t x = 0; x < width; ++x) std::memcpy(row + x * sizeof(T), &element, sizeof(T));
}

void set(const SetWork& work) noexcept {
  // A value whose bytes are all equal (zero above all) goes through memset, which is as fast as memory.
  const std::uint32_t low = work.value & 0xFFu;
  const bool uniform = work.element_size == 1 || (work.element_size == 2 && (work.value & 0xFFFFu) == low * 0x0101u) ||
                       work.value == low * 0x01010101u;
  for (std::size_t z = 0; z < work.depth; ++z) {
    for (std::size_t y = 0; y < work.height; ++y) {
      std::byte* row = static_cast<std::byte*>(work.dst) + z * work.slice + y * work.pitch;
      if (uniform) {
        std::memset(row, static_cast<int>(low), work.width * work.element_size);
      } else if (work.element_size == 2) {
        fill_row<std::uint16_t>(row, work.width, work.value);
      } else {
        fill_row<std::uint32_t>(row, work.width, work.value);
      }
    }
  }
}

template <class F>
void call_guarded(Device& device, F&& f) noexcept {
  try {
    const HostFunctionScope scope;
    f();
  } catch (...) {
    device.failure.store(hipErrorLaunchFailure, std::memory_order_release);
  }
}

}  // namespace

// No alternative's construction throws, so no Work is ever valueless and std::visit does not throw.
// NOLINTNEXTLINE(bugprone-exception-escape)
TaskKind task_kind(const Work& work) noexcept {
  return std::visit(Overloaded{
                        [](const CopyWork&) { return TaskKind::kBounded; },
                        [](const SetWork&) { return TaskKind::kBounded; },
                        [](const KernelWork&) { return TaskKind::kBounded; },
                        [](const FreeWork&) { return TaskKind::kBounded; },
                        [](const HostWork&) { return TaskKind::kUserCode; },
                        [](const CallbackWork&) { return TaskKind::kUserCode; },
                        [](const auto&) { return TaskKind::kInstant; },
                    },
                    work);
}

const char* work_name(const Work& work) noexcept {
  static constexpr const char* kNames[] = {"empty",    "memcpy", "memset",      "kernel",       "host",
                                           "callback", "free",   "child graph", "event record", "event wait"};
  static_assert(std::size(kNames) == std::variant_size_v<Work>);
  return kNames[work.index()];
}

// NOLINTNEXTLINE(bugprone-exception-escape): as above
void run_work(const Work& work, Device& device) noexcept {
  std::visit(Overloaded{
                 [](const CopyWork& w) { copy(w); },
                 [](const SetWork& w) { set(w); },
                 [&](const KernelWork& w) {
                   if (!runtime().pool.run(w)) {
                     device.failure.store(hipErrorLaunchFailure, std::memory_order_release);
                   }
                 },
                 [](const FreeWork& w) { runtime().memory.release(w.pointer); },
                 [&](const HostWork& w) { call_guarded(device, [&] { w.function(w.data); }); },
                 [&](const CallbackWork& w) {
                   call_guarded(device, [&] { w.function(w.stream, device.failure.load(), w.data); });
                 },
                 [](const auto&) {},
             },
             work);
}

}  // namespace hiphost
