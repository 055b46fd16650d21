#include "access_log.hpp"

#include <algorithm>
#include <bit>

#include "memory.hpp"

namespace hiphost {
namespace {

constexpr std::uint32_t kBits = 64;
constexpr std::size_t kMostReports = 64;

AccessedRange described(const Access& access) { return {access.begin, access.end - access.begin, access.is_write}; }

std::string in_words(const std::string& task, const AccessedRange& range) {
  char text[96];
  std::snprintf(text, sizeof text, " %s %zu bytes at 0x%zx", range.is_write ? "writes" : "reads", range.bytes,
                std::size_t{range.address});
  return task + text;
}

}  // namespace

void NumberSet::add(std::vector<std::uint64_t>& bits, std::uint32_t number) {
  if (bits.size() <= number / kBits) bits.resize(number / kBits + 1);
  bits[number / kBits] |= std::uint64_t{1} << number % kBits;
}

void NumberSet::add_all(std::vector<std::uint64_t>& bits, const std::vector<std::uint64_t>& others) {
  if (bits.size() < others.size()) bits.resize(others.size());
  for (std::size_t i = 0; i < others.size(); ++i) bits[i] |= others[i];
}

bool NumberSet::contains(const std::vector<std::uint64_t>& bits, std::uint32_t number) {
  return number / kBits < bits.size() && (bits[number / kBits] >> number % kBits & 1) != 0;
}

std::size_t NumberSet::count(const std::vector<std::uint64_t>& bits) {
  std::size_t count = 0;
  for (const std::uint64_t word : bits) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

std::uint32_t AccessLog::add(const WorkTask& task, std::vector<Access>&& accesses,
                             const std::vector<std::uint64_t>& before, const MemoryMap& memory) {
  Entry entry;
  entry.name = display_name(task.work(), task.in_graph());
  for (const Access& access : accesses) {
    entry.begin = std::min(entry.begin, access.begin);
    entry.end = std::max(entry.end, access.end);
    if (freed_accesses_.size() < kMostReports && memory.was_freed(access.begin, access.end)) {
      freed_accesses_.push_back({entry.name, described(access)});
    }
  }
  entry.accesses = std::move(accesses);
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (!NumberSet::contains(before, i + 1)) compare(entries_[i], entry);
  }
  entries_.push_back(std::move(entry));
  return count();
}

void AccessLog::compare(const Entry& earlier, const Entry& later) {
  if (earlier.begin >= later.end || later.begin >= earlier.end) return;
  for (const Access& b : later.accesses) {
    if (earlier.begin >= b.end || b.begin >= earlier.end) continue;
    for (const Access& a : earlier.accesses) {
      if (a.begin >= b.end || b.begin >= a.end || !(a.is_write || b.is_write)) continue;
      ++race_count_;
      const bool known = std::any_of(races_.begin(), races_.end(), [&](const Race& race) {
        return race.first == earlier.name && race.second == later.name;
      });
      if (!known && races_.size() < kMostReports) {
        races_.push_back({earlier.name, later.name, described(a), described(b)});
      }
      return;
    }
  }
}

void AccessLog::report(ExplorationReport& out) const {
  out.race_count = race_count_;
  out.races = races_;
  out.freed_accesses = freed_accesses_;
}

std::string to_string(const Race& race) {
  return "race: " + in_words(race.first, race.first_range) + ", " + in_words(race.second, race.second_range);
}

std::string to_string(const FreedAccess& access) { return "freed memory: " + in_words(access.task, access.range); }

}  // namespace hiphost
