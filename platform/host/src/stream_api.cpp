#include <algorithm>

#include "api.hpp"
#include "capture.hpp"
#include "stream.hpp"

using namespace hiphost;

namespace {

constexpr int kLeastPriority = 1;
constexpr int kGreatestPriority = -1;

hipError_t create_stream(hipStream_t* out, unsigned flags, int priority) {
  if (out == nullptr) return hipErrorInvalidValue;
  *out = nullptr;
  if (flags != hipStreamDefault && flags != hipStreamNonBlocking) return hipErrorInvalidValue;
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Device& device = current_device(rt);
  Ref<Stream> stream = make_ref<Stream>(device, flags, std::clamp(priority, kGreatestPriority, kLeastPriority), false);
  device.streams.push_back(stream.get());
  *out = rt.streams.add(stream.get());
  stream->ref();  // the handle's
  return hipSuccess;
}

// Enqueues a function of the application.
hipError_t enqueue_call(hipStream_t stream, Work&& work, bool capturable) {
  Runtime& rt = runtime();
  Lock lock(rt.mutex);
  Stream* target = find_stream(rt, stream);
  if (target == nullptr) return hipErrorContextIsDestroyed;
  if (!capturable) {
    if (const hipError_t refused = refuse_while_capturing(*target); refused != hipSuccess) return refused;
  }
  return dispatch(rt, *target, std::move(work));
}

}  // namespace

extern "C" {

hipError_t hipDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  FMHAX_HIP_API_ANYWHERE({
    if (leastPriority != nullptr) *leastPriority = kLeastPriority;
    if (greatestPriority != nullptr) *greatestPriority = kGreatestPriority;
    return hipSuccess;
  });
}

hipError_t hipStreamCreate(hipStream_t* stream) {
  FMHAX_HIP_API({ return create_stream(stream, hipStreamDefault, 0); });
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  FMHAX_HIP_API({ return create_stream(stream, flags, 0); });
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority) {
  FMHAX_HIP_API({ return create_stream(stream, flags, priority); });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  FMHAX_HIP_API({
    if (stream == nullptr || stream == hipStreamLegacy) return hipErrorInvalidResourceHandle;
    if (stream == hipStreamPerThread) return hipErrorInvalidResourceHandle;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = rt.streams.find(stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    rt.streams.remove(target);
    forget_stream(rt, *target);
    target->unref();
    return hipSuccess;
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (const hipError_t refused = refuse_while_capturing(*target); refused != hipSuccess) return refused;
    if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
    if (const hipError_t refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
    const std::vector<Ref<Task>> tasks = unfinished_work(*target);
    for (const Ref<Task>& task : tasks) {
      if (!task->done()) return hipErrorNotReady;
    }
    for (const Ref<Task>& task : tasks) rt.scheduler.observe(*task);
    return target->device.failure.load(std::memory_order_acquire);
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    if (const hipError_t refused = refuse_while_capturing(*target); refused != hipSuccess) return refused;
    if (const hipError_t refused = check_legacy_use(rt, *target); refused != hipSuccess) return refused;
    if (const hipError_t refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
    const Device& device = target->device;
    const std::vector<Ref<Task>> tasks = unfinished_work(*target);
    lock.unlock();
    return wait_for(rt, tasks, device);
  });
}

hipError_t hipDeviceSynchronize(void) {
  FMHAX_HIP_API({
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Device& device = current_device(rt);
    hipError_t refused = hipSuccess;
    for (Stream* stream : device.streams) {
      if (const hipError_t status = refuse_while_capturing(*stream); status != hipSuccess) refused = status;
    }
    if (refused != hipSuccess) return refused;
    if (refused = check_unsafe_call(rt); refused != hipSuccess) return refused;
    const std::vector<Ref<Task>> tasks = unfinished_work(device);
    lock.unlock();
    return wait_for(rt, tasks, device);
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  FMHAX_HIP_API({
    if (flags != hipEventWaitDefault && flags != hipEventWaitExternal) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorInvalidHandle;  // unlike elsewhere, and so documented
    Event* awaited = rt.events.find(event);
    if (awaited == nullptr) return hipErrorInvalidHandle;
    bool handled = false;
    const hipError_t status = capture_event_wait(rt, *target, *awaited, flags, handled);
    if (handled || status != hipSuccess) return status;
    append_wait(*target, awaited->record);
    return hipSuccess;
  });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int* flags) {
  FMHAX_HIP_API({
    if (flags == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    *flags = target->flags;
    return hipSuccess;
  });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  FMHAX_HIP_API({
    if (priority == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    *priority = target->priority;
    return hipSuccess;
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  FMHAX_HIP_API({
    if (device == nullptr) return hipErrorInvalidValue;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    const Stream* target = find_stream(rt, stream);
    if (target == nullptr) return hipErrorContextIsDestroyed;
    *device = target->device.index;
    return hipSuccess;
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void* userData) {
  FMHAX_HIP_API({
    if (fn == nullptr) return hipErrorInvalidValue;
    return enqueue_call(stream, HostWork{fn, userData}, true);
  });
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* userData, unsigned int flags) {
  FMHAX_HIP_API({
    if (callback == nullptr || flags != 0) return hipErrorInvalidValue;
    return enqueue_call(stream, CallbackWork{callback, stream, userData}, false);
  });
}

}  // extern "C"
