#include "event.hpp"

#include "api.hpp"
#include "capture.hpp"

namespace hiphost {

Event::Event(int device_, unsigned flags_) : device(device_), flags(flags_) {}

Event::~Event() = default;

void Event::set_record(Ref<Task> task) {
  record = std::move(task);
  capture = {};
  captured_after.clear();
}

}  // namespace hiphost

using namespace hiphost;

namespace {

constexpr unsigned kEventFlags = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                                 hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem;

// What a call that looks at an event from the host must check first.
hipError_t check_host_look(Runtime& rt, Event& event) {
  if (event.capture) {
    if (!event.capture->ended()) event.capture->invalidated = true;
    return hipErrorCapturedEvent;
  }
  return check_unsafe_call(rt);
}

hipError_t create_event(hipEvent_t* out, unsigned flags) {
  if (out == nullptr) return hipErrorInvalidValue;
  *out = nullptr;
  if ((flags & ~kEventFlags) != 0) return hipErrorInvalidValue;
  constexpr unsigned kScopes = hipEventReleaseToDevice | hipEventReleaseToSystem;
  if ((flags & kScopes) == kScopes) return hipErrorInvalidValue;
  // Events of other processes aren't supported, and HIP wants them without timing.
  if ((flags & hipEventInterprocess) != 0) {
    return (flags & hipEventDisableTiming) == 0 ? hipErrorInvalidValue : hipErrorNotSupported;
  }
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Ref<Event> event = make_ref<Event>(thread_state.device, flags);
  event->ref();  // the handle's
  *out = rt.events.add(event.get());
  return hipSuccess;
}

hipError_t record_event(hipEvent_t event, hipStream_t stream, unsigned flags) {
  if (flags != hipEventRecordDefault && flags != hipEventRecordExternal) return hipErrorInvalidValue;
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Event* target = rt.events.find(event);
  if (target == nullptr) return hipErrorInvalidHandle;
  Stream* on = find_stream(rt, stream);
  if (on == nullptr) return hipErrorContextIsDestroyed;
  if (target->device != on->device.index) return hipErrorInvalidHandle;
  if (on->capture) return capture_event_record(rt, *on, *target, flags);
  if (const hipError_t refused = check_legacy_use(rt, *on); refused != hipSuccess) return refused;
  const Ref<Task> task = make_ref<RecordTask>(target->has_timing());
  const hipError_t status = append_task(*on, task);
  if (status == hipSuccess) target->set_record(task);
  return status;
}

}  // namespace

extern "C" {

hipError_t hipEventCreate(hipEvent_t* event) {
  FMHAX_HIP_API({ return create_event(event, hipEventDefault); });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  FMHAX_HIP_API({ return create_event(event, flags); });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Event* target = rt.events.find(event);
    if (target == nullptr) return event == nullptr ? hipErrorInvalidHandle : hipErrorContextIsDestroyed;
    rt.events.remove(target);
    target->unref();
    return hipSuccess;
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  FMHAX_HIP_API({ return record_event(event, stream, hipEventRecordDefault); });
}

hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags) {
  FMHAX_HIP_API({ return record_event(event, stream, flags); });
}

hipError_t hipEventQuery(hipEvent_t event) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Event* target = rt.events.find(event);
    if (target == nullptr) return hipErrorInvalidHandle;
    if (const hipError_t refused = check_host_look(rt, *target); refused != hipSuccess) return refused;
    if (!target->record) return hipSuccess;
    if (!target->record->done()) return hipErrorNotReady;
    rt.scheduler.observe(*target->record);
    return hipSuccess;
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Event* target = rt.events.find(event);
    if (target == nullptr) return hipErrorInvalidHandle;
    if (const hipError_t refused = check_host_look(rt, *target); refused != hipSuccess) return refused;
    const Ref<Task> task = target->record;
    const Device& device = *rt.devices[static_cast<std::size_t>(target->device)];
    lock.unlock();
    if (!task) return hipSuccess;
    return wait_for(rt, {task}, device);
  });
}

hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  FMHAX_HIP_API({
    if (ms == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Event* first = rt.events.find(start);
    Event* second = rt.events.find(stop);
    if (first == nullptr || second == nullptr) return hipErrorInvalidHandle;
    for (Event* event : {first, second}) {
      if (const hipError_t refused = check_host_look(rt, *event); refused != hipSuccess) return refused;
    }
    if (!first->has_timing() || !second->has_timing() || first->device != second->device) return hipErrorInvalidHandle;
    if (!first->record || !second->record) return hipErrorInvalidHandle;
    if (!first->record->done() || !second->record->done()) return hipErrorNotReady;
    const auto ns = second->record->finish_time_ns() - first->record->finish_time_ns();
    *ms = static_cast<float>(static_cast<double>(ns) * 1e-6);
    return hipSuccess;
  });
}

}  // extern "C"
