#include "runtime.hpp"

#include <cstddef>
#include <new>

#include "capture.hpp"
#include "environment.hpp"

namespace hiphost {
namespace {

struct ShutdownGuard {
  Runtime* rt;
  ~ShutdownGuard() { rt->shutdown(); }
};

// The main thread's streams end before its static objects, which may still call.
constinit thread_local bool thread_ended = false;

// The hipStreamPerThread streams of one thread, by device.
struct PerThreadStreams {
  std::vector<Ref<Stream>> streams;

  ~PerThreadStreams() {
    thread_ended = true;
    if (streams.empty()) return;
    Runtime& rt = runtime();
    Lock lock(rt.mutex);
    for (Ref<Stream>& stream : streams) {
      if (!stream) continue;
      forget_stream(rt, *stream);
    }
    streams.clear();
  }
};

thread_local PerThreadStreams per_thread_streams;

Stream* per_thread_stream(Runtime& rt) {
  if (thread_ended) return nullptr;
  Device& device = current_device(rt);
  auto& streams = per_thread_streams.streams;
  const auto index = static_cast<std::size_t>(device.index);
  if (streams.size() <= index) streams.resize(rt.devices.size());
  if (!streams[index]) {
    streams[index] = make_ref<Stream>(device, unsigned{hipStreamDefault}, 0, false);
    device.streams.push_back(streams[index].get());
  }
  return streams[index].get();
}

}  // namespace

Runtime::Runtime() : pool(environment_thread_count()) {
  const int count = environment_device_count();
  for (int i = 0; i < count; ++i) devices.push_back(std::make_unique<Device>(i));
}

void Runtime::shutdown() {
  scheduler.shutdown();
  pool.shutdown();
}

Runtime& runtime() {
  alignas(Runtime) static std::byte storage[sizeof(Runtime)];
  static Runtime* const instance = new (storage) Runtime;
  static const ShutdownGuard guard{instance};
  return *instance;
}

Device& current_device(Runtime& rt) { return *rt.devices[static_cast<std::size_t>(thread_state.device)]; }

Stream* find_stream(Runtime& rt, hipStream_t handle) {
  if (handle == nullptr || handle == hipStreamLegacy) return current_device(rt).legacy.get();
  if (handle == hipStreamPerThread) return per_thread_stream(rt);
  return rt.streams.find(handle);
}

}  // namespace hiphost
