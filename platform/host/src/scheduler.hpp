// The core through which every operation goes: it starts tasks whose predecessors are done, on service threads that
// are created when needed and kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "sync.hpp"
#include "task.hpp"

namespace hiphost {

// Chooses the next task among those that are ready. Called under the scheduler's lock.
class TaskChooser {
 public:
  virtual ~TaskChooser() = default;
  virtual void add(Task& ready) noexcept = 0;
  // The task to start now, or null to start none until another task ends; `running` tasks have started and not ended.
  virtual Task* take(std::size_t running) noexcept = 0;
};

// Runs tasks one at a time on the threads that wait for them, in an order of its own, and follows what comes after
// what. All functions are called under the scheduler's lock.
class Stepper : public TaskChooser {
 public:
  // The task is known to the scheduler from here on; it comes after all that the host knows to be done.
  virtual void submitted(Task& task) noexcept = 0;
  // `after` comes after `before`, which is done.
  virtual void ordered(const Task& before, Task& after) noexcept = 0;
  virtual void starting(Task& task) noexcept = 0;
  virtual void finished(Task& task) noexcept = 0;
  // The host knows that the task is done.
  virtual void observed(const Task& task) noexcept = 0;
};

// First in, first out within a priority; a lower number goes first.
class ReadyQueue final : public TaskChooser {
 public:
  void add(Task& ready) noexcept override;
  Task* take(std::size_t running) noexcept override;

 private:
  static constexpr int kLevels = 3;
  struct Fifo {
    Task* head = nullptr;
    Task* tail = nullptr;
  };
  Fifo fifos_[kLevels];
};

class Scheduler {
 public:
  Scheduler();

  struct Edge {
    Task* before;
    Task* after;
  };

  // Makes the task start once the given tasks are done (null and finished ones are skipped). `edges` adds predecessors
  // to tasks that are reached from `task` through static successors. False, with nothing done, after shutdown.
  bool submit(Task& task, std::span<Task* const> predecessors, std::span<const Edge> edges = {});

  // Sleeps until the task is done; false if shutdown came first.
  bool wait(Task& task);

  // Replaces the choice of the next task; only while nothing is in flight. Null restores the default.
  void set_chooser(TaskChooser* chooser);

  // While set, tasks run only in step(), which wait() calls; set and unset it only while nothing is in flight.
  void set_stepper(Stepper* stepper);
  // Runs one task that is ready, if there is one and no other thread is doing so.
  bool step();
  // The host has seen that the task is done.
  void observe(const Task& task);

  // Starts no more tasks, gives running ones a moment to end, and joins the threads that ended.
  void shutdown();
  bool stopped() const noexcept { return stopping_.load(std::memory_order_acquire); }

 private:
  struct Worker {
    Parker parker;
    std::thread thread;
    bool exited = false;  // under watch_mutex_
  };
  // What a locked section leaves to be done after unlocking.
  struct Aftermath {
    Task* retired = nullptr;
    Worker* woken = nullptr;
    std::vector<std::shared_ptr<Parker>> sleepers;
  };
  // Tasks with no unfinished predecessor that are on their way to the chooser, or finish at once.
  struct Settling {
    Task* head = nullptr;
    Task* tail = nullptr;
  };

  void settle(Settling& list, Aftermath& after);
  void finish(Task& task, Settling& list, Aftermath& after);
  void request_worker(Aftermath& after);
  void spawn_worker();
  void clean_up(Aftermath& after);
  void work(Worker& self);
  Task* next_task(std::unique_lock<AdaptiveMutex>& lock, Worker& self, Aftermath& after);
  void spin_for_work(std::unique_lock<AdaptiveMutex>& lock);
  void watch();
  bool wait_stepping(Task& task);

  AdaptiveMutex mutex_;
  ReadyQueue default_chooser_;
  TaskChooser* chooser_ = &default_chooser_;
  std::atomic<Stepper*> stepper_{nullptr};
  bool stepping_ = false;
  std::atomic<std::size_t> ready_{0};
  std::atomic<bool> stopping_{false};
  std::size_t base_workers_;
  std::size_t running_ = 0;
  std::size_t in_user_code_ = 0;
  std::size_t spinning_ = 0;
  std::size_t waking_ = 0;
  std::size_t started_ = 0;
  std::vector<Worker*> idle_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<Parker>> sleepers_;

  // Taken after mutex_, never before it.
  std::mutex watch_mutex_;
  std::condition_variable watch_condition_;
  std::condition_variable exit_condition_;
  std::size_t exited_ = 0;
  bool watch_requested_ = false;
  std::thread watcher_;
};

}  // namespace hiphost
