// Events: the task whose end an event stands for, or the place in a capture.
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

#include "ref.hpp"
#include "task.hpp"

namespace hiphost {

class Capture;
struct Node;

// All fields are guarded by the runtime's lock.
class Event : public RefCounted {
 public:
  Event(int device_, unsigned flags_);
  ~Event() override;

  bool has_timing() const noexcept { return (flags & hipEventDisableTiming) == 0; }
  // The event stands for the end of this task from now on.
  void set_record(Ref<Task> task);

  const int device;
  const unsigned flags;
  Ref<Task> record;  // null before the first record
  // Set when the last record happened in a capture, then with the nodes that it stands for.
  Ref<Capture> capture;
  std::vector<Node*> captured_after;
};

// Ends when what it was recorded after has ended.
class RecordTask final : public Task {
 public:
  explicit RecordTask(bool timed) : Task(TaskKind::kInstant) {
    if (timed) keep_finish_time();
  }
  const char* name() const noexcept override { return "event record"; }

 protected:
  void execute() noexcept override {}
};

}  // namespace hiphost
