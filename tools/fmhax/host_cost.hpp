/// @file What calls cost the thread that makes them, besides time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace fmhax::tool {

/// Instructions that this thread runs in user mode, by the processor's own counter. Not there on many virtual machines
/// and where the system forbids it (/proc/sys/kernel/perf_event_paranoid).
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  /// Since the counter was made; nothing where there is none.
  std::optional<std::uint64_t> read() const;

 private:
  int file_ = -1;
};

/// HIP calls that `work` makes on this thread. Nothing on platforms that don't tell.
std::optional<std::uint64_t> hip_calls_of(const std::function<void()>& work);

}  // namespace fmhax::tool
