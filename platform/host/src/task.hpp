// What the scheduler orders: a piece of work that may start when all its predecessors are done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ref.hpp"
#include "sync.hpp"

namespace hiphost {

enum class TaskKind : std::uint8_t {
  // Finished by whichever thread finishes its last predecessor, under the scheduler's lock: markers and event records.
  kInstant,
  // Runs on a service thread and ends by itself: copies and sets.
  kBounded,
  // Runs code of the application for as long as that takes, on a service thread of its own if need be.
  kUserCode,
};

class WorkTask;

// What an exploration knows of a task: its place, and the numbered tasks that it comes after.
struct Trace {
  std::uint64_t sequence = 0;         // by which the schedule's hash knows it
  std::uint64_t epoch = 0;            // in which `number` and `before` mean something
  std::uint32_t number = 0;           // 0: touches nothing that is known
  std::vector<std::uint64_t> before;  // bit set
};

class Task : public RefCounted {
 public:
  explicit Task(TaskKind kind, int priority = 0) noexcept : kind_(kind), priority_(priority) {}

  TaskKind kind() const noexcept { return kind_; }
  int priority() const noexcept { return priority_; }
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // steady_clock of the moment it finished, if keep_finish_time() was asked for and it is done.
  std::int64_t finish_time_ns() const noexcept { return finish_time_ns_; }
  void keep_finish_time() noexcept { wants_finish_time_ = true; }
  // A name for traces and explorers; static storage.
  virtual const char* name() const noexcept { return "task"; }
  // Null for tasks that do nothing of the application's.
  virtual const WorkTask* as_work() const noexcept { return nullptr; }

 protected:
  virtual void execute() noexcept = 0;
  // Called once after the task is done, without locks, before the scheduler drops its reference.
  virtual void retired() noexcept {}

  // Successors that are fixed before the first submission and survive reset(); they aren't counted as references.
  void set_static_successors(Task** successors, std::size_t count) noexcept {
    static_successors_ = successors;
    static_successor_count_ = count;
  }
  // Makes a finished task with `predecessors` static predecessors ready for another run.
  void reset(std::int32_t predecessors) noexcept {
    pending_ = predecessors;
    done_.store(false, std::memory_order_relaxed);
    trace_.reset();
  }
  void set_priority(int priority) noexcept { priority_ = priority; }
  void set_kind(TaskKind kind) noexcept { kind_ = kind; }

 private:
  friend class Scheduler;
  friend class Explorer;
  friend class ReadyQueue;

  // All fields below belong to the scheduler's lock, except that done_ may be read without it.
  std::int32_t pending_ = 0;
  std::atomic<bool> done_{false};
  TaskKind kind_;
  bool wants_finish_time_ = false;
  int priority_;
  Task* next_ = nullptr;
  Task* first_successor_ = nullptr;
  Task** static_successors_ = nullptr;
  std::size_t static_successor_count_ = 0;
  std::vector<Task*> more_successors_;
  std::vector<std::shared_ptr<Parker>> sleepers_;
  std::int64_t finish_time_ns_ = 0;
  std::unique_ptr<Trace> trace_;  // only while exploring
};

}  // namespace hiphost
