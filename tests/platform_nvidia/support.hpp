/// @file Owners and helpers of the tests on a card. Every wait has a deadline.
#pragma once

#include <hip/hip_runtime.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#define CHECK_OK(call) CHECK_EQ(static_cast<int>(call), static_cast<int>(hipSuccess))
#define REQUIRE_OK(call) REQUIRE_EQ(static_cast<int>(call), static_cast<int>(hipSuccess))
#define CHECK_IS(call, expected) CHECK_EQ(static_cast<int>(call), static_cast<int>(expected))

namespace test {

using Words = std::vector<std::uint32_t>;

inline constexpr std::chrono::seconds kDeadline{20};

template <class Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A stream that waits for no other, not even the default one.
class Stream {
 public:
  Stream() { REQUIRE_OK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking)); }
  ~Stream() { CHECK_OK(hipStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator hipStream_t() const { return stream_; }
  void wait() const { REQUIRE_OK(hipStreamSynchronize(stream_)); }

 private:
  hipStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = hipEventDisableTiming) { REQUIRE_OK(hipEventCreateWithFlags(&event_, flags)); }
  ~Event() { CHECK_OK(hipEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  operator hipEvent_t() const { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

/// Words in device memory, all 0 at first.
class DeviceWords {
 public:
  explicit DeviceWords(std::size_t count) : count_(count) {
    REQUIRE_OK(hipMalloc(&data_, bytes()));
    REQUIRE_OK(hipMemset(data_, 0, bytes()));
    REQUIRE_OK(hipDeviceSynchronize());
  }
  ~DeviceWords() { CHECK_OK(hipFree(data_)); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;

  std::uint32_t* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(std::uint32_t); }
  Words read() const {
    Words words(count_);
    REQUIRE_OK(hipMemcpy(words.data(), data_, bytes(), hipMemcpyDeviceToHost));
    return words;
  }

 private:
  std::size_t count_;
  std::uint32_t* data_ = nullptr;
};

/// Words in pinned host memory, all 0 at first.
class PinnedWords {
 public:
  explicit PinnedWords(std::size_t count) : count_(count) {
    REQUIRE_OK(hipHostMalloc(&data_, bytes(), hipHostMallocDefault));
    for (std::size_t i = 0; i < count; ++i) data_[i] = 0;
  }
  ~PinnedWords() { CHECK_OK(hipHostFree(data_)); }
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  std::uint32_t* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(std::uint32_t); }
  void fill(std::uint32_t value) const {
    for (std::size_t i = 0; i < count_; ++i) data_[i] = value;
  }
  Words read() const { return {data_, data_ + count_}; }

 private:
  std::size_t count_;
  std::uint32_t* data_ = nullptr;
};

class Graph {
 public:
  Graph() { REQUIRE_OK(hipGraphCreate(&graph_, 0)); }
  explicit Graph(hipGraph_t owned) : graph_(owned) {}
  ~Graph() { CHECK_OK(hipGraphDestroy(graph_)); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  operator hipGraph_t() const { return graph_; }
  std::size_t node_count() const {
    std::size_t count = 0;
    REQUIRE_OK(hipGraphGetNodes(graph_, nullptr, &count));
    return count;
  }
  std::size_t edge_count() const {
    std::size_t count = 0;
    REQUIRE_OK(hipGraphGetEdges(graph_, nullptr, nullptr, &count));
    return count;
  }

 private:
  hipGraph_t graph_ = nullptr;
};

class Executable {
 public:
  explicit Executable(hipGraph_t graph) { REQUIRE_OK(hipGraphInstantiate(&executable_, graph, nullptr, nullptr, 0)); }
  ~Executable() { CHECK_OK(hipGraphExecDestroy(executable_)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  operator hipGraphExec_t() const { return executable_; }
  void run(const Stream& stream) const {
    REQUIRE_OK(hipGraphLaunch(executable_, stream));
    stream.wait();
  }

 private:
  hipGraphExec_t executable_ = nullptr;
};

/// Holds a stream up until open(), or the deadline.
class Gate {
 public:
  explicit Gate(hipStream_t stream) : stream_(stream) { REQUIRE_OK(hipLaunchHostFunc(stream, pass, &is_open_)); }
  ~Gate() {
    open();
    CHECK_OK(hipStreamSynchronize(stream_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() { is_open_ = true; }

 private:
  static void pass(void* is_open) {
    (void)eventually([&] { return static_cast<std::atomic<bool>*>(is_open)->load(); });
  }

  hipStream_t stream_;
  std::atomic<bool> is_open_{false};
};

/// A host function: counts its runs.
inline void count_run(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

}  // namespace test
