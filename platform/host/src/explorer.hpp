// Decides the order of an exploration and follows which task comes after which.
#pragma once

#include <hiphost/explore.hpp>

#include <atomic>
#include <cstdint>
#include <vector>

#include "access_log.hpp"
#include "scheduler.hpp"

namespace hiphost {

class Runtime;

// A small generator whose sequence is the same everywhere.
class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept;
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

class Explorer final : public Stepper {
 public:
  Explorer(Runtime& rt, std::uint64_t seed);

  // On entry to a public function, without any lock: runs a few tasks, or none.
  void pause(const char* function) noexcept;
  // The order in which the kernel's blocks run; empty: as they are numbered.
  std::vector<std::uint64_t> block_order(const KernelWork& kernel, std::uint64_t blocks);
  ExplorationReport report() const;

  void add(Task& ready) noexcept override;
  Task* take(std::size_t running) noexcept override;
  void submitted(Task& task) noexcept override;
  void ordered(const Task& before, Task& after) noexcept override;
  void starting(Task& task) noexcept override;
  void finished(Task& task) noexcept override;
  void observed(const Task& task) noexcept override;

 private:
  // How the next task is chosen among those that are ready, but for one choice in eight, which is any.
  enum class Preference : std::uint8_t { any, newest, oldest };

  Trace& trace_of(Task& task);
  // The trace if it means anything now.
  const Trace* current_trace(const Task& task) const noexcept;
  void add_knowledge(std::vector<std::uint64_t>& before, const Trace& of) const;

  Runtime& rt_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> rolls_{0};  // of pause(), which has no lock
  // Everything below is under the scheduler's lock.
  SeededRandom random_;
  Preference preference_;
  std::uint64_t pauses_of_eight_;
  std::vector<Task*> ready_;
  AccessLog log_;
  std::vector<std::uint64_t> host_;  // what the host knows to be done
  std::uint64_t epoch_;              // of no other exploration
  std::uint64_t last_sequence_ = 0;
  std::size_t open_ = 0;  // tasks known and not finished
  std::uint64_t tasks_ = 0;
  std::uint64_t hash_ = 14695981039346656037ULL;
};

// The exploration that is going on, or null.
Explorer* exploring() noexcept;
void set_exploring(Explorer* explorer) noexcept;

}  // namespace hiphost
