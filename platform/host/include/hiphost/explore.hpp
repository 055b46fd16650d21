// Schedule exploration: while an Exploration is alive, a seed decides the order of everything that streams and graphs
// leave open, one task at a time, and every pair of tasks that touch the same bytes without an order is reported.
//
// Tasks run on the threads of the application: on those that wait, and now and then (as the seed says) on entry to a
// call. A program whose host side is one thread therefore gets the same schedule from the same seed. A host function
// must not wait for that thread; nothing runs unless the program waits or calls.
//
// Memory is filled with 0xFF bytes (NaN in every floating-point type) when it is allocated and when it is freed, and
// freed memory is not handed out again before the exploration ends.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hiphost {

struct AccessedRange {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool is_write = false;
};

// Two tasks that no stream order, event, graph edge or wait of the host orders. Whether their accesses really collided
// in this schedule doesn't matter.
struct Race {
  std::string first;  // ran first in this schedule
  std::string second;
  AccessedRange first_range;
  AccessedRange second_range;
};

// A task that declares bytes which were freed before it ran.
struct FreedAccess {
  std::string task;
  AccessedRange range;
};

struct ExplorationReport {
  std::uint64_t seed = 0;
  std::uint64_t tasks = 0;          // that ran, without markers and event records
  std::uint64_t schedule_hash = 0;  // of the order in which they ran
  std::uint64_t race_count = 0;     // all pairs; `races` has the first of each pair of names
  std::vector<Race> races;
  std::vector<FreedAccess> freed_accesses;

  bool clean() const { return race_count == 0 && freed_accesses.empty(); }
};

// "race between A (writes 16 bytes at 0x…) and B (reads …)", and the like.
std::string to_string(const Race& race);
std::string to_string(const FreedAccess& access);

class Explorer;

// Begins when it is made, after all work in flight has ended; there may be one at a time, and no stream may be
// capturing then. What several host threads do is explored too, but their own timing takes part in it, and order that
// they make among themselves is taken for granted.
class Exploration {
 public:
  explicit Exploration(std::uint64_t seed);
  // Runs what is left in the seed's order, then returns to normal running.
  ~Exploration();
  Exploration(const Exploration&) = delete;
  Exploration& operator=(const Exploration&) = delete;

  // Runs what is left, and tells what was found so far. The exploration goes on.
  ExplorationReport finish();

 private:
  std::unique_ptr<Explorer> explorer_;
};

}  // namespace hiphost
