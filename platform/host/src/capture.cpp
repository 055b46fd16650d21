#include "capture.hpp"

#include <algorithm>
#include <unordered_set>

#include "explorer.hpp"

namespace hiphost {
namespace {

void add_unique(std::vector<Node*>& nodes, Node* node) {
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

void leave_capture(Stream& stream) {
  stream.capture = {};
  stream.capture_after.clear();
}

// Ends the capture for all of its streams; the graph stays with whoever holds it.
void close_capture(Runtime& rt, Capture& capture) {
  const Ref<Capture> keep(&capture);
  std::erase(rt.captures, &capture);
  capture.graph->capture = nullptr;
  capture.graph = {};
  for (Stream* member : capture.members) leave_capture(*member);
  capture.members.clear();
  capture.let_go.clear();
  capture.origin = nullptr;
}

// Whether every node that a forked stream captured last is an ancestor of where the origin stands, or was let go.
bool all_joined(const Capture& capture) {
  std::unordered_set<const Node*> reached;
  std::vector<Node*> open = capture.origin->capture_after;
  open.insert(open.end(), capture.let_go.begin(), capture.let_go.end());
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->before.begin(), node->before.end());
  }
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const Stream* member) {
    return std::all_of(member->capture_after.begin(), member->capture_after.end(),
                       [&](const Node* node) { return reached.count(node) != 0; });
  });
}

}  // namespace

hipError_t check_unsafe_call(Runtime& rt) {
  if (rt.captures.empty() || thread_state.capture_mode == hipStreamCaptureModeRelaxed) return hipSuccess;
  const auto self = std::this_thread::get_id();
  hipError_t result = hipSuccess;
  for (Capture* capture : rt.captures) {
    const bool own = capture->thread == self && capture->mode != hipStreamCaptureModeRelaxed;
    const bool global =
        thread_state.capture_mode == hipStreamCaptureModeGlobal && capture->mode == hipStreamCaptureModeGlobal;
    if (!own && !global) continue;
    capture->invalidated = true;
    result = hipErrorStreamCaptureUnsupported;
  }
  return result;
}

hipError_t check_legacy_use(Runtime& rt, const Stream& stream, bool invalidate) {
  if (!stream.legacy) return hipSuccess;
  hipError_t result = hipSuccess;
  for (Capture* capture : rt.captures) {
    for (const Stream* member : capture->members) {
      if (&member->device != &stream.device || !member->blocking()) continue;
      if (invalidate) capture->invalidated = true;
      result = hipErrorStreamCaptureImplicit;
    }
  }
  return result;
}

hipError_t refuse_while_capturing(Stream& stream) {
  if (!stream.capture) return hipSuccess;
  stream.capture->invalidated = true;
  return hipErrorStreamCaptureUnsupported;
}

hipError_t capture_work(Runtime&, Stream& stream, Work&& work, Node** out) {
  if (stream.capture->invalidated) return hipErrorStreamCaptureInvalidated;
  Node& node = stream.capture->graph->add_node(std::move(work), stream.capture_after);
  advance_capture(stream, node);
  if (out != nullptr) *out = &node;
  return hipSuccess;
}

void advance_capture(Stream& stream, Node& node) { stream.capture_after.assign(1, &node); }

hipError_t capture_event_record(Runtime& rt, Stream& stream, Event& event, unsigned flags) {
  if (stream.capture->invalidated) return hipErrorStreamCaptureInvalidated;
  if (flags == hipEventRecordExternal) return capture_work(rt, stream, RecordWork{Ref<Event>(&event)});
  event.capture = stream.capture;
  event.captured_after = stream.capture_after;
  return hipSuccess;
}

hipError_t capture_event_wait(Runtime& rt, Stream& stream, Event& event, unsigned flags, bool& handled) {
  handled = false;
  Capture* own = stream.capture.get();
  Capture* its = event.capture.get();
  if (own == nullptr && its == nullptr) return check_legacy_use(rt, stream);
  handled = true;
  if (own != nullptr && own->invalidated) return hipErrorStreamCaptureInvalidated;
  if (flags == hipEventWaitExternal) {
    if (own == nullptr) return hipErrorInvalidValue;
    return capture_work(rt, stream, WaitWork{Ref<Event>(&event)});
  }
  if (its == nullptr) {
    if (!event.record) return hipSuccess;
    own->invalidated = true;
    return hipErrorStreamCaptureIsolation;
  }
  if (its->ended()) {
    if (own != nullptr) own->invalidated = true;
    return hipErrorCapturedEvent;
  }
  if (its->invalidated) return hipErrorStreamCaptureInvalidated;
  if (own != nullptr && own != its) {
    own->invalidated = true;
    its->invalidated = true;
    return hipErrorStreamCaptureMerge;
  }
  if (own == nullptr) {
    if (stream.legacy) {
      its->invalidated = true;
      return hipErrorStreamCaptureImplicit;
    }
    stream.capture = event.capture;
    its->members.push_back(&stream);
  }
  for (Node* node : event.captured_after) {
    if (rt.nodes.contains(node)) add_unique(stream.capture_after, node);
  }
  return hipSuccess;
}

hipError_t begin_capture(Runtime& rt, Stream& stream, hipStreamCaptureMode mode, Ref<Graph> graph,
                         std::vector<Node*> after) {
  if (stream.legacy) return hipErrorStreamCaptureUnsupported;
  if (stream.capture || (graph && graph->capture != nullptr)) return hipErrorIllegalState;
  Ref<Capture> capture = make_ref<Capture>();
  capture->id = ++rt.last_id;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->members.push_back(&stream);
  if (graph) {
    capture->graph = std::move(graph);
  } else {
    capture->graph = make_ref<Graph>(rt);
    register_graph(rt, *capture->graph);
  }
  capture->graph->capture = capture.get();
  rt.captures.push_back(capture.get());
  stream.capture = std::move(capture);
  stream.capture_after = std::move(after);
  return hipSuccess;
}

hipError_t end_capture(Runtime& rt, Stream& stream, Ref<Graph>& out) {
  if (!stream.capture) return hipErrorIllegalState;
  const Ref<Capture> capture = stream.capture;
  if (capture->origin != &stream) return hipErrorStreamCaptureUnmatched;
  if (capture->mode != hipStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return hipErrorStreamCaptureWrongThread;
  }
  const bool invalidated = capture->invalidated;
  const bool joined = all_joined(*capture);
  out = capture->graph;
  close_capture(rt, *capture);
  if (!invalidated && joined) return hipSuccess;
  // A graph that the application made stays its own; one that capture made had no other owner.
  if (!capture->into_existing) unregister_graph(rt, *out);
  out = {};
  return invalidated ? hipErrorStreamCaptureInvalidated : hipErrorStreamCaptureUnjoined;
}

void forget_stream(Runtime& rt, Stream& stream) {
  if (const Ref<Capture> capture = stream.capture) {
    if (capture->origin == &stream) {
      const Ref<Graph> graph = capture->graph;
      close_capture(rt, *capture);
      if (!capture->into_existing) unregister_graph(rt, *graph);
    } else {
      capture->invalidated = true;
      std::erase(capture->members, &stream);
      leave_capture(stream);
    }
  }
  Device& device = stream.device;
  std::erase(device.streams, &stream);
  for (auto* orphans : {&device.orphans, &device.blocking_orphans}) {
    if (exploring() != nullptr) break;
    std::erase_if(*orphans, [](const Ref<Task>& task) { return task->done(); });
  }
  for (const Ref<Task>& task : stream.frontier) {
    if (task->done() && exploring() == nullptr) continue;
    device.orphans.push_back(task);
    if (stream.blocking()) device.blocking_orphans.push_back(task);
  }
  stream.frontier.clear();
}

hipStreamCaptureStatus capture_status(const Stream& stream) {
  if (!stream.capture) return hipStreamCaptureStatusNone;
  return stream.capture->invalidated ? hipStreamCaptureStatusInvalidated : hipStreamCaptureStatusActive;
}

hipError_t dispatch(Runtime& rt, Stream& stream, Work&& work, Ref<Task>* task, std::unique_ptr<std::byte[]> staging) {
  if (stream.capture) return capture_work(rt, stream, std::move(work));
  if (const hipError_t refused = check_legacy_use(rt, stream); refused != hipSuccess) return refused;
  Ref<StreamTask> created = make_ref<StreamTask>(std::move(work), stream);
  if (staging) created->keep(std::move(staging));
  const Ref<Task> base(created);
  const hipError_t status = append_task(stream, base);
  if (status == hipSuccess && task != nullptr) *task = base;
  return status;
}

}  // namespace hiphost
