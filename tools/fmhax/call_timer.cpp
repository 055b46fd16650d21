#include "call_timer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "host_cost.hpp"
#include "verification/device_buffer.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;
using verification::OwnedStream;

class Event {
 public:
  Event() { check_hip(hipEventCreate(&event_), "hipEventCreate"); }
  ~Event() { (void)hipEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(hipStream_t stream) const { check_hip(hipEventRecord(event_, stream), "hipEventRecord"); }
  double ms_since(const Event& start) const {
    float elapsed_ms = 0;
    check_hip(hipEventElapsedTime(&elapsed_ms, start.event_, event_), "hipEventElapsedTime");
    return static_cast<double>(elapsed_ms);
  }

 private:
  hipEvent_t event_ = nullptr;
};

/// Holds a stream up, by a host function on it, so that what follows is all enqueued before any of it begins.
class Gate {
 public:
  explicit Gate(const OwnedStream& stream) : stream_(stream) {}
  /// The function reads the flag, so the stream has to be past it.
  ~Gate() {
    open();
    (void)hipStreamSynchronize(stream_.get());
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// The stream must be past the gate's previous closing.
  void close() {
    is_open_.store(false);
    const auto wait = [](void* is_open) { static_cast<std::atomic<bool>*>(is_open)->wait(false); };
    check_hip(hipLaunchHostFunc(stream_.get(), wait, &is_open_), "hipLaunchHostFunc");
  }
  void open() {
    is_open_.store(true);
    is_open_.notify_all();
  }

 private:
  const OwnedStream& stream_;
  std::atomic<bool> is_open_{true};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void time_host(int copies, const BenchOptions& options, const OwnedStream& stream, const CopyCall& call,
               ModeTimes& times) {
  const InstructionCounter counter;
  std::vector<double> host_us;
  std::vector<double> instructions;
  for (int i = 0; i < options.iterations; ++i) {
    const auto counted_before = counter.read();
    const auto before = std::chrono::steady_clock::now();
    call(i % copies, stream.get());
    const auto after = std::chrono::steady_clock::now();
    const auto counted_after = counter.read();
    stream.synchronize();
    host_us.push_back(std::chrono::duration<double, std::micro>(after - before).count());
    if (counted_before && counted_after) instructions.push_back(static_cast<double>(*counted_after - *counted_before));
  }
  times.host_us = median(std::move(host_us));
  if (!instructions.empty()) times.host_instructions = median(std::move(instructions));
  times.hip_calls = hip_calls_of([&] { call(0, stream.get()); });
  stream.synchronize();
}

void time_device(int copies, const BenchOptions& options, const OwnedStream& stream, const CopyCall& call,
                 ModeTimes& times) {
  const Event start;
  const Event stop;
  Gate gate(stream);
  std::vector<double> device_ms;
  for (int i = 0; i < options.iterations; ++i) {
    gate.close();
    start.record(stream.get());
    call(i % copies, stream.get());
    stop.record(stream.get());
    gate.open();
    stream.synchronize();
    device_ms.push_back(stop.ms_since(start));
  }
  times.device_ms = median(std::move(device_ms));

  start.record(stream.get());
  for (int i = 0; i < options.iterations; ++i) call(i % copies, stream.get());
  stop.record(stream.get());
  stream.synchronize();
  times.in_a_row_ms = stop.ms_since(start) / options.iterations;
}

}  // namespace

ModeTimes time_calls(int copies, const BenchOptions& options, double flops, const CopyCall& call) {
  const OwnedStream stream;
  for (int i = 0; i < options.warmup; ++i) call(i % copies, stream.get());
  stream.synchronize();
  ModeTimes times;
  if (options.measures_host) time_host(copies, options, stream, call, times);
  if (options.measures_device) time_device(copies, options, stream, call, times);
  if (times.device_ms && *times.device_ms > 0) times.tflops = flops / (*times.device_ms * 1e9);
  return times;
}

}  // namespace fmhax::tool
