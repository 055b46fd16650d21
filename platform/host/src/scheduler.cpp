#include "scheduler.hpp"

#include <algorithm>
#include <chrono>

namespace hiphost {
namespace {

constexpr int kSpinsBeforeSleep = 300;
constexpr std::size_t kMostWorkers = 4096;
constexpr std::chrono::milliseconds kStallCheck{2};
constexpr std::chrono::seconds kExitGrace{1};

std::int64_t steady_now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ReadyQueue::add(Task& ready) noexcept {
  Fifo& fifo = fifos_[std::clamp(ready.priority() + 1, 0, kLevels - 1)];
  ready.next_ = nullptr;
  if (fifo.tail != nullptr) {
    fifo.tail->next_ = &ready;
  } else {
    fifo.head = &ready;
  }
  fifo.tail = &ready;
}

Task* ReadyQueue::take(std::size_t) noexcept {
  for (Fifo& fifo : fifos_) {
    if (fifo.head == nullptr) continue;
    Task* task = fifo.head;
    fifo.head = task->next_;
    if (fifo.head == nullptr) fifo.tail = nullptr;
    return task;
  }
  return nullptr;
}

// A few threads beyond the cores, since a service thread often sleeps while it waits for a kernel's last block.
Scheduler::Scheduler() : base_workers_(std::max(4u, std::thread::hardware_concurrency())) {}

bool Scheduler::submit(Task& task, std::span<Task* const> predecessors, std::span<const Edge> edges) {
  Aftermath after;
  {
    std::lock_guard lock(mutex_);
    if (stopped()) return false;
    Stepper* const stepper = stepper_.load(std::memory_order_relaxed);
    if (stepper != nullptr) stepper->submitted(task);
    const auto link = [stepper](Task& before, Task& successor) {
      if (before.done_.load(std::memory_order_relaxed)) {
        if (stepper != nullptr) stepper->ordered(before, successor);
        return;
      }
      ++successor.pending_;
      if (before.first_successor_ == nullptr) {
        before.first_successor_ = &successor;
      } else {
        before.more_successors_.push_back(&successor);
      }
    };
    for (Task* before : predecessors) {
      if (before != nullptr) link(*before, task);
    }
    for (const Edge& edge : edges) link(*edge.before, *edge.after);
    task.ref();
    if (task.pending_ == 0) {
      Settling list{&task, &task};
      task.next_ = nullptr;
      settle(list, after);
    }
  }
  clean_up(after);
  return true;
}

void Scheduler::finish(Task& task, Settling& list, Aftermath& after) {
  Stepper* const stepper = stepper_.load(std::memory_order_relaxed);
  if (stepper != nullptr) stepper->finished(task);
  const auto release = [&](Task& successor) {
    if (stepper != nullptr) stepper->ordered(task, successor);
    if (--successor.pending_ != 0) return;
    successor.next_ = nullptr;
    (list.tail != nullptr ? list.tail->next_ : list.head) = &successor;
    list.tail = &successor;
  };
  if (task.wants_finish_time_) task.finish_time_ns_ = steady_now_ns();
  if (task.first_successor_ != nullptr) release(*std::exchange(task.first_successor_, nullptr));
  for (Task* successor : task.more_successors_) release(*successor);
  task.more_successors_.clear();
  // After the others, so that a graph's event records are done when its end is.
  for (std::size_t i = 0; i < task.static_successor_count_; ++i) release(*task.static_successors_[i]);
  if (!task.sleepers_.empty()) {
    after.sleepers.insert(after.sleepers.end(), task.sleepers_.begin(), task.sleepers_.end());
    task.sleepers_.clear();
  }
  task.next_ = after.retired;
  after.retired = &task;
  task.done_.store(true, std::memory_order_release);
}

void Scheduler::settle(Settling& list, Aftermath& after) {
  while (list.head != nullptr) {
    Task& task = *list.head;
    list.head = task.next_;
    if (list.head == nullptr) list.tail = nullptr;
    if (task.kind() == TaskKind::kInstant) {
      task.execute();
      finish(task, list, after);
    } else {
      chooser_->add(task);
      ready_.fetch_add(1, std::memory_order_relaxed);
      if (stepper_.load(std::memory_order_relaxed) == nullptr) request_worker(after);
    }
  }
}

// One worker at a time is woken; it asks for the next one when it leaves tasks behind.
void Scheduler::request_worker(Aftermath& after) {
  if (stopped() || after.woken != nullptr || spinning_ + waking_ >= ready_.load(std::memory_order_relaxed)) return;
  if (!idle_.empty()) {
    after.woken = idle_.back();
    idle_.pop_back();
    ++waking_;
  } else if (workers_.size() < base_workers_ + in_user_code_ && workers_.size() < kMostWorkers) {
    spawn_worker();
  } else {
    std::lock_guard lock(watch_mutex_);
    if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
    watch_requested_ = true;
    watch_condition_.notify_one();
  }
}

void Scheduler::spawn_worker() {
  workers_.push_back(std::make_unique<Worker>());
  Worker& worker = *workers_.back();
  ++waking_;
  worker.thread = std::thread([this, &worker] { work(worker); });
}

void Scheduler::clean_up(Aftermath& after) {
  if (after.woken != nullptr) after.woken->parker.wake();
  for (const auto& sleeper : after.sleepers) sleeper->wake();
  while (after.retired != nullptr) {
    Task* task = after.retired;
    after.retired = task->next_;
    task->retired();
    task->unref();
  }
  after.woken = nullptr;
  after.sleepers.clear();
}

void Scheduler::work(Worker& self) {
  Aftermath after;
  {
    std::unique_lock lock(mutex_);
    --waking_;
    while (Task* task = next_task(lock, self, after)) {
      const bool user_code = task->kind() == TaskKind::kUserCode;
      ++running_;
      ++started_;
      in_user_code_ += user_code;
      if (ready_.load(std::memory_order_relaxed) != 0) request_worker(after);
      lock.unlock();
      clean_up(after);
      task->execute();
      lock.lock();
      in_user_code_ -= user_code;
      --running_;
      Settling list;
      finish(*task, list, after);
      settle(list, after);
    }
  }
  clean_up(after);
  std::lock_guard lock(watch_mutex_);
  self.exited = true;
  ++exited_;
  exit_condition_.notify_all();
}

Task* Scheduler::next_task(std::unique_lock<AdaptiveMutex>& lock, Worker& self, Aftermath& after) {
  bool spun = false;
  while (!stopped()) {
    const bool may_take = stepper_.load(std::memory_order_relaxed) == nullptr;
    if (Task* task = may_take ? chooser_->take(running_) : nullptr) {
      ready_.fetch_sub(1, std::memory_order_relaxed);
      return task;
    }
    if (after.retired != nullptr || after.woken != nullptr || !after.sleepers.empty()) {
      lock.unlock();
      clean_up(after);
      lock.lock();
    } else if (!spun && spinning_ == 0 && ready_.load(std::memory_order_relaxed) == 0) {
      spin_for_work(lock);
      spun = true;
    } else {
      idle_.push_back(&self);
      lock.unlock();
      self.parker.wait();
      lock.lock();
      if (!stopped()) --waking_;
      spun = false;
    }
  }
  return nullptr;
}

void Scheduler::spin_for_work(std::unique_lock<AdaptiveMutex>& lock) {
  ++spinning_;
  lock.unlock();
  for (int i = 0; i < kSpinsBeforeSleep && ready_.load(std::memory_order_relaxed) == 0; ++i) cpu_relax();
  lock.lock();
  --spinning_;
}

bool Scheduler::wait(Task& task) {
  if (stepper_.load(std::memory_order_acquire) != nullptr) return wait_stepping(task);
  for (int i = 0; i < kSpinsBeforeSleep; ++i) {
    if (task.done()) return true;
    cpu_relax();
  }
  std::unique_lock lock(mutex_);
  if (task.done()) return true;
  if (stopped()) return false;
  const auto parker = std::make_shared<Parker>();
  task.sleepers_.push_back(parker);
  sleepers_.push_back(parker);
  while (!task.done() && !stopped()) {
    lock.unlock();
    parker->wait();
    lock.lock();
  }
  std::erase(sleepers_, parker);
  return task.done();
}

void Scheduler::set_chooser(TaskChooser* chooser) {
  std::lock_guard lock(mutex_);
  chooser_ = chooser != nullptr ? chooser : &default_chooser_;
}

void Scheduler::set_stepper(Stepper* stepper) {
  std::lock_guard lock(mutex_);
  stepper_.store(stepper, std::memory_order_release);
  chooser_ = stepper != nullptr ? static_cast<TaskChooser*>(stepper) : &default_chooser_;
}

bool Scheduler::step() {
  Aftermath after;
  {
    std::unique_lock lock(mutex_);
    Stepper* const stepper = stepper_.load(std::memory_order_relaxed);
    if (stepper == nullptr || stepping_ || stopped()) return false;
    Task* task = chooser_->take(running_);
    if (task == nullptr) return false;
    ready_.fetch_sub(1, std::memory_order_relaxed);
    stepping_ = true;
    stepper->starting(*task);
    lock.unlock();
    task->execute();
    lock.lock();
    stepping_ = false;
    Settling list;
    finish(*task, list, after);
    settle(list, after);
  }
  clean_up(after);
  return true;
}

bool Scheduler::wait_stepping(Task& task) {
  while (!task.done()) {
    if (stopped()) return false;
    if (!step()) std::this_thread::yield();  // another thread is at it
  }
  observe(task);
  return true;
}

void Scheduler::observe(const Task& task) {
  if (stepper_.load(std::memory_order_acquire) == nullptr) return;
  std::lock_guard lock(mutex_);
  if (Stepper* stepper = stepper_.load(std::memory_order_relaxed)) stepper->observed(task);
}

// Runs only while tasks wait and every worker is taken by work that should end by itself: if none of it ended for a
// while, it doesn't (a kernel that polls for something a waiting task does), and one more worker is due.
void Scheduler::watch() {
  std::unique_lock watch_lock(watch_mutex_);
  while (!stopped()) {
    watch_condition_.wait(watch_lock, [this] { return watch_requested_ || stopped(); });
    watch_requested_ = false;
    watch_lock.unlock();
    std::size_t seen = 0;
    for (bool first = true;; first = false) {
      std::this_thread::sleep_for(kStallCheck);
      std::lock_guard lock(mutex_);
      if (stopped() || ready_.load(std::memory_order_relaxed) == 0) break;
      if (!first && started_ == seen && idle_.empty() && workers_.size() < kMostWorkers) spawn_worker();
      seen = started_;
    }
    watch_lock.lock();
  }
}

void Scheduler::shutdown() {
  std::vector<std::shared_ptr<Parker>> sleepers;
  {
    std::lock_guard lock(mutex_);
    if (stopped()) return;
    stopping_.store(true, std::memory_order_release);
    sleepers = sleepers_;
    for (Worker* worker : idle_) worker->parker.wake();
  }
  for (const auto& sleeper : sleepers) sleeper->wake();
  {
    std::unique_lock lock(watch_mutex_);
    watch_condition_.notify_all();
    exit_condition_.wait_for(lock, kExitGrace, [this] { return exited_ == workers_.size(); });
  }
  // A worker that is still in the application's code can't be stopped; it ends with the process.
  for (auto& worker : workers_) {
    bool exited = false;
    {
      std::lock_guard lock(watch_mutex_);
      exited = worker->exited;
    }
    exited ? worker->thread.join() : worker->thread.detach();
  }
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace hiphost
