// Stream capture: operations on participating streams become nodes of a graph instead of running.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "graph.hpp"
#include "ref.hpp"
#include "runtime.hpp"

namespace hiphost {

// Guarded by the runtime's lock.
class Capture : public RefCounted {
 public:
  std::uint64_t id = 0;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;  // null once the capture has ended
  std::vector<Stream*> members;
  Ref<Graph> graph;
  // Nodes that hipStreamUpdateCaptureDependencies took out of a stream's place: they, and what is before them, need not
  // be joined.
  std::vector<Node*> let_go;
  bool invalidated = false;
  bool into_existing = false;  // the graph was the application's already

  bool ended() const noexcept { return origin == nullptr; }
};

// Calls that could wait or synchronise implicitly: refused, and captures invalidated, as this thread's capture mode
// demands.
hipError_t check_unsafe_call(Runtime& rt);

// Use of the null stream while a blocking stream of its device captures: refused; such captures are invalidated
// unless only looked at.
hipError_t check_legacy_use(Runtime& rt, const Stream& stream, bool invalidate = true);

// hipErrorStreamCaptureUnsupported, with the capture invalidated, if the stream is capturing.
hipError_t refuse_while_capturing(Stream& stream);

// Adds a node after what the stream captured last. The stream must be capturing.
hipError_t capture_work(Runtime& rt, Stream& stream, Work&& work, Node** out = nullptr);
// Moves the stream's place in its capture behind a node added to the capture's graph.
void advance_capture(Stream& stream, Node& node);

hipError_t capture_event_record(Runtime& rt, Stream& stream, Event& event, unsigned flags);
// Handles the wait if the stream or the event belongs to a capture; `handled` tells.
hipError_t capture_event_wait(Runtime& rt, Stream& stream, Event& event, unsigned flags, bool& handled);

hipError_t begin_capture(Runtime& rt, Stream& stream, hipStreamCaptureMode mode, Ref<Graph> graph,
                         std::vector<Node*> after);
hipError_t end_capture(Runtime& rt, Stream& stream, Ref<Graph>& out);
// The stream goes away: its capture, if any, is invalidated, and dropped if the stream began it.
void forget_stream(Runtime& rt, Stream& stream);

hipStreamCaptureStatus capture_status(const Stream& stream);

// Either captures the work or enqueues it as a task; `task` returns the latter.
hipError_t dispatch(Runtime& rt, Stream& stream, Work&& work, Ref<Task>* task = nullptr,
                    std::unique_ptr<std::byte[]> staging = nullptr);

}  // namespace hiphost
