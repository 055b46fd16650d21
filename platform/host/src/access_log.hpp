// What the tasks of an exploration touched, and which of them came before which.
#pragma once

#include <hiphost/explore.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "declarations.hpp"

namespace hiphost {

// A set of numbers from 1 on.
class NumberSet {
 public:
  static void add(std::vector<std::uint64_t>& bits, std::uint32_t number);
  static void add_all(std::vector<std::uint64_t>& bits, const std::vector<std::uint64_t>& others);
  static bool contains(const std::vector<std::uint64_t>& bits, std::uint32_t number);
  static std::size_t count(const std::vector<std::uint64_t>& bits);
};

class AccessLog {
 public:
  // Numbers a task that is about to run, after comparing what it touches with what was touched by tasks that it does
  // not come after. Ranges that overlap freed memory are reported too.
  std::uint32_t add(const WorkTask& task, std::vector<Access>&& accesses, const std::vector<std::uint64_t>& before,
                    const MemoryMap& memory);
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(entries_.size()); }
  // Forgets the tasks, not what was found.
  void clear() { entries_.clear(); }
  void report(ExplorationReport& out) const;

 private:
  struct Entry {
    std::string name;
    std::vector<Access> accesses;
    std::uintptr_t begin = UINTPTR_MAX;  // around all of them
    std::uintptr_t end = 0;
  };

  void compare(const Entry& earlier, const Entry& later);

  std::vector<Entry> entries_;  // number n is at n - 1
  std::vector<Race> races_;
  std::vector<FreedAccess> freed_accesses_;
  std::uint64_t race_count_ = 0;
};

}  // namespace hiphost
