// Streams chain tasks; a device owns its null stream and knows its other ones.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <span>
#include <vector>

#include "event.hpp"
#include "ref.hpp"
#include "scheduler.hpp"
#include "task.hpp"
#include "work.hpp"

namespace hiphost {

class Capture;
class Device;
struct Node;

// All mutable fields are guarded by the runtime's lock.
class Stream : public RefCounted {
 public:
  Stream(Device& device_, unsigned flags_, int priority_, bool legacy_);
  ~Stream() override;

  bool blocking() const noexcept { return !legacy && (flags & hipStreamNonBlocking) == 0; }
  hipStream_t handle() noexcept { return reinterpret_cast<hipStream_t>(this); }

  Device& device;
  const unsigned flags;
  const int priority;
  const bool legacy;

  // What the next operation comes after: the last operation, and events waited for since.
  std::vector<Ref<Task>> frontier;
  Ref<Capture> capture;
  std::vector<Node*> capture_after;
};

class Device {
 public:
  explicit Device(int index_);

  const int index;
  Ref<Stream> legacy;
  std::vector<Stream*> streams;                 // all but the null stream
  std::vector<Ref<Task>> orphans;               // unfinished work of streams that were destroyed
  std::vector<Ref<Task>> blocking_orphans;      // the part of it that the null stream waits for
  std::atomic<hipError_t> failure{hipSuccess};  // what a kernel or host function did wrong; until hipDeviceReset
};

// A task on a stream that does one operation.
class StreamTask final : public WorkTask {
 public:
  StreamTask(Work&& work, Stream& stream)
      : WorkTask(task_kind(work), stream.priority), work_(std::move(work)), device_(stream.device) {}

  // Bytes that the work reads, kept until it is done.
  void keep(std::unique_ptr<std::byte[]> staging) noexcept { staging_ = std::move(staging); }
  const char* name() const noexcept override { return work_name(work_); }
  const Work& work() const noexcept override { return work_; }
  bool in_graph() const noexcept override { return false; }

 protected:
  void execute() noexcept override { run_work(work_, device_); }
  void retired() noexcept override {
    work_ = EmptyWork{};
    staging_.reset();
  }

 private:
  Work work_;
  Device& device_;
  std::unique_ptr<std::byte[]> staging_;
};

// Tasks that an operation on this stream comes after, implicit synchronisation with the null stream included.
void collect_predecessors(const Stream& stream, std::vector<Task*>& out);

// Appends a task to a stream that isn't capturing. hipErrorDeinitialized after shutdown.
hipError_t append_task(Stream& stream, const Ref<Task>& task);
// Appends tasks that hang together by static successors: `first` starts before all, `last` ends after all. `first`
// comes after `before` too, which may be null; `edges` as in Scheduler::submit.
hipError_t append_group(Stream& stream, Task& first, const Ref<Task>& last, Task* before,
                        std::span<const Scheduler::Edge> edges);

// Orders what the stream does next after `task`.
void append_wait(Stream& stream, const Ref<Task>& task);

// What a host thread waits for to know that everything submitted so far is done.
std::vector<Ref<Task>> unfinished_work(const Stream& stream);
std::vector<Ref<Task>> unfinished_work(const Device& device);

}  // namespace hiphost
