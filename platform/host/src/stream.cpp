#include "stream.hpp"

#include <algorithm>

#include "capture.hpp"
#include "explorer.hpp"
#include "runtime.hpp"

namespace hiphost {
namespace {

// An exploration also has to know the finished ones: in another schedule they may not have finished.
bool matters(const Ref<Task>& task) { return !task->done() || exploring() != nullptr; }

void append_unfinished(const std::vector<Ref<Task>>& tasks, std::vector<Task*>& out) {
  for (const Ref<Task>& task : tasks) {
    if (matters(task)) out.push_back(task.get());
  }
}

void append_unfinished(const std::vector<Ref<Task>>& tasks, std::vector<Ref<Task>>& out) {
  for (const Ref<Task>& task : tasks) {
    if (matters(task)) out.push_back(task);
  }
}

}  // namespace

Stream::Stream(Device& device_, unsigned flags_, int priority_, bool legacy_)
    : device(device_), flags(flags_), priority(priority_), legacy(legacy_) {}

Stream::~Stream() = default;

Device::Device(int index_) : index(index_), legacy(make_ref<Stream>(*this, unsigned{hipStreamDefault}, 0, true)) {}

void collect_predecessors(const Stream& stream, std::vector<Task*>& out) {
  append_unfinished(stream.frontier, out);
  if (stream.legacy) {
    for (const Stream* other : stream.device.streams) {
      if (other->blocking()) append_unfinished(other->frontier, out);
    }
    append_unfinished(stream.device.blocking_orphans, out);
  } else if (stream.blocking()) {
    append_unfinished(stream.device.legacy->frontier, out);
  }
}

hipError_t append_group(Stream& stream, Task& first, const Ref<Task>& last, Task* before,
                        std::span<const Scheduler::Edge> edges) {
  Runtime& rt = runtime();
  rt.predecessors.assign(1, before);
  collect_predecessors(stream, rt.predecessors);
  if (!rt.scheduler.submit(first, rt.predecessors, edges)) return hipErrorDeinitialized;
  if (stream.frontier.size() == 1) {
    stream.frontier.front() = last;
  } else {
    stream.frontier.assign(1, last);
  }
  return hipSuccess;
}

hipError_t append_task(Stream& stream, const Ref<Task>& task) { return append_group(stream, *task, task, nullptr, {}); }

void append_wait(Stream& stream, const Ref<Task>& task) {
  if (!task || !matters(task)) return;
  std::erase_if(stream.frontier, [](const Ref<Task>& old) { return !matters(old); });
  if (stream.legacy) {
    // What blocking streams do later waits for the null stream's frontier, so that must include their earlier work.
    std::vector<Ref<Task>> before = unfinished_work(stream);
    stream.frontier = std::move(before);
  }
  stream.frontier.push_back(task);
}

std::vector<Ref<Task>> unfinished_work(const Stream& stream) {
  std::vector<Ref<Task>> tasks;
  append_unfinished(stream.frontier, tasks);
  if (stream.legacy) {
    for (const Stream* other : stream.device.streams) {
      if (other->blocking()) append_unfinished(other->frontier, tasks);
    }
    append_unfinished(stream.device.blocking_orphans, tasks);
  }
  return tasks;
}

std::vector<Ref<Task>> unfinished_work(const Device& device) {
  std::vector<Ref<Task>> tasks;
  append_unfinished(device.legacy->frontier, tasks);
  for (const Stream* stream : device.streams) append_unfinished(stream->frontier, tasks);
  append_unfinished(device.orphans, tasks);
  return tasks;
}

}  // namespace hiphost
