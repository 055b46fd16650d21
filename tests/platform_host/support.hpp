// What the tests of the CPU runtime share. Every wait has a deadline.
#pragma once

#include <hip/hip_runtime.h>
#include <hiphost/kernel.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#define CHECK_OK(call) CHECK_EQ(static_cast<int>(call), static_cast<int>(hipSuccess))
#define REQUIRE_OK(call) REQUIRE_EQ(static_cast<int>(call), static_cast<int>(hipSuccess))
#define CHECK_IS(call, expected) CHECK_EQ(static_cast<int>(call), static_cast<int>(expected))

namespace test {

inline constexpr std::chrono::seconds kDeadline{30};

// Waits until the predicate holds; false at the deadline.
template <class F>
bool eventually(F&& predicate) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// Holds up whatever runs pass() until open() is called, or the deadline.
class Gate {
 public:
  void open() { open_.store(true); }
  bool entered() const { return entered_.load(); }
  void pass() {
    entered_.store(true);
    if (!eventually([this] { return open_.load(); })) timed_out_.store(true);
  }
  bool timed_out() const { return timed_out_.load(); }
  static void host_function(void* gate) { static_cast<Gate*>(gate)->pass(); }
  ~Gate() { open(); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> entered_{false};
  std::atomic<bool> timed_out_{false};
};

class Stream {
 public:
  explicit Stream(unsigned flags = hipStreamNonBlocking) { REQUIRE_OK(hipStreamCreateWithFlags(&stream_, flags)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)hipStreamDestroy(stream_); }
  operator hipStream_t() const { return stream_; }

 private:
  hipStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = hipEventDefault) { REQUIRE_OK(hipEventCreateWithFlags(&event_, flags)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)hipEventDestroy(event_); }
  operator hipEvent_t() const { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

enum class Where { kDevice, kPinned, kManaged };

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, Where where = Where::kDevice) : where_(where) {
    switch (where) {
      case Where::kDevice:
        REQUIRE_OK(hipMalloc(&data_, count * sizeof(T)));
        break;
      case Where::kPinned:
        REQUIRE_OK(hipHostMalloc(&data_, count * sizeof(T)));
        break;
      case Where::kManaged:
        REQUIRE_OK(hipMallocManaged(&data_, count * sizeof(T)));
        break;
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { (void)(where_ == Where::kPinned ? hipHostFree(data_) : hipFree(data_)); }
  T* get() const { return data_; }
  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
  Where where_;
};

class Graph {
 public:
  Graph() { REQUIRE_OK(hipGraphCreate(&graph_, 0)); }
  explicit Graph(hipGraph_t graph) : graph_(graph) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { (void)hipGraphDestroy(graph_); }
  operator hipGraph_t() const { return graph_; }

 private:
  hipGraph_t graph_ = nullptr;
};

class Exec {
 public:
  explicit Exec(hipGraph_t graph) { REQUIRE_OK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0)); }
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;
  ~Exec() { (void)hipGraphExecDestroy(exec_); }
  operator hipGraphExec_t() const { return exec_; }

 private:
  hipGraphExec_t exec_ = nullptr;
};

inline hipHostNodeParams host_params(hipHostFn_t function, void* data) { return {function, data}; }

inline hipMemsetParams memset_params(void* dst, unsigned value, unsigned element_size, std::size_t width) {
  hipMemsetParams params{};
  params.dst = dst;
  params.value = value;
  params.elementSize = element_size;
  params.width = width;
  params.height = 1;
  return params;
}

// Captures what `record` enqueues on the stream.
template <class F>
hipGraph_t capture(hipStream_t stream, F&& record, hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
  REQUIRE_OK(hipStreamBeginCapture(stream, mode));
  record();
  hipGraph_t graph = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &graph));
  REQUIRE(graph != nullptr);
  return graph;
}

inline std::size_t node_count(hipGraph_t graph) {
  std::size_t count = 0;
  REQUIRE_OK(hipGraphGetNodes(graph, nullptr, &count));
  return count;
}

inline std::size_t edge_count(hipGraph_t graph) {
  std::size_t count = 0;
  REQUIRE_OK(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  return count;
}

inline void count_call(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

inline hipStream_t garbage_stream() { return reinterpret_cast<hipStream_t>(std::uintptr_t{0xFFFF}); }

}  // namespace test
