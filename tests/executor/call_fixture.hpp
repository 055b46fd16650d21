/// @file Small calls with known gradients, and owners for what the tests create through HIP.
#pragma once

#include <hip/hip_runtime.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "fmhax/fmhax.hpp"
#include "verification/device_problem.hpp"
#include "verification/verify_case.hpp"

namespace fmhax::test {

using verification::Case;
using verification::check_hip;
using verification::DeviceProblem;
using verification::Gradients;
using verification::OwnedStream;
using verification::PreparedCase;

/// A group-mode case, two heads of 16, causal, deterministic: nothing but its lengths is special.
inline Case group_case(const std::vector<std::int32_t>& lengths, std::int64_t capacity, std::uint64_t seed = 1) {
  Case c;
  c.problem.dtype = DataType::fp32;
  c.problem.is_group_mode = c.problem.is_deterministic = true;
  c.problem.batch = static_cast<std::int64_t>(lengths.size());
  c.problem.nhead_q = c.problem.nhead_k = 2;
  c.problem.hdim_q = c.problem.hdim_v = 16;
  c.problem.max_seqlen_q = c.problem.max_seqlen_k = c.problem.total_q = c.problem.total_k = capacity;
  c.problem.mask = Mask::causal();
  c.scale = 0.25F;
  c.seed = seed;
  std::vector<std::int32_t> starts{0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
  c.lengths.q.seqstart = c.lengths.k.seqstart = starts;
  return c;
}

/// Long enough for several key tiles, so that the workspace and the host chain are used.
inline constexpr std::int64_t kCapacity = 400;
inline Case long_case(std::uint64_t seed = 1) { return group_case({300, 0, 1, 77}, kCapacity, seed); }

/// Two sequences of 300 in batch mode, otherwise as group_case().
inline Case batch_case() {
  Case c;
  c.problem.dtype = DataType::fp32;
  c.problem.batch = 2;
  c.problem.nhead_q = c.problem.nhead_k = 2;
  c.problem.hdim_q = c.problem.hdim_v = 16;
  c.problem.max_seqlen_q = c.problem.max_seqlen_k = 300;
  c.problem.is_deterministic = true;
  c.problem.mask = Mask::causal();
  c.scale = 0.25F;
  c.seed = 3;
  return c;
}

/// A prepared case on the current device.
struct Call {
  explicit Call(const Case& c, ExecutorOptions options = {})
      : prepared(verification::prepare(c)),
        executor(c.problem, std::move(options)),
        device(c, prepared.inputs, prepared.expected.forward, executor) {}

  CallArguments& arguments() { return device.arguments(); }
  /// Replaces lengths and inputs; the problem stays.
  void load(const Case& c) {
    prepared = verification::prepare(c);
    device.load(c, prepared.inputs, prepared.expected.forward);
  }
  /// Empty when the gradients in device memory are right, else what is wrong. Blocks.
  std::string failure() const {
    const std::string violation = device.violation();
    if (!violation.empty()) return violation;
    return verification::compare(prepared.source, device.download_gradients(), prepared.expected).failure();
  }

  PreparedCase prepared;
  Executor executor;
  DeviceProblem device;
};

/// Records what `record` enqueues on a stream of its own.
class CapturedGraph {
 public:
  CapturedGraph(const std::function<void(hipStream_t)>& record,
                hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
    const OwnedStream stream;
    check_hip(hipStreamBeginCapture(stream.get(), mode), "hipStreamBeginCapture");
    try {
      record(stream.get());
    } catch (...) {
      (void)hipStreamEndCapture(stream.get(), &graph_);
      destroy_graph();
      throw;
    }
    check_hip(hipStreamEndCapture(stream.get(), &graph_), "hipStreamEndCapture");
    check_hip(hipGraphInstantiate(&executable_, graph_, nullptr, nullptr, 0), "hipGraphInstantiate");
  }
  ~CapturedGraph() {
    destroy_executable();
    destroy_graph();
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void launch(hipStream_t stream) const { check_hip(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }
  hipGraph_t graph() const { return graph_; }
  void destroy_graph() {
    if (graph_ != nullptr) (void)hipGraphDestroy(graph_);
    graph_ = nullptr;
  }
  void destroy_executable() {
    if (executable_ != nullptr) (void)hipGraphExecDestroy(executable_);
    executable_ = nullptr;
  }

 private:
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t executable_ = nullptr;
};

inline std::size_t node_count(hipGraph_t graph) {
  std::size_t count = 0;
  check_hip(hipGraphGetNodes(graph, nullptr, &count), "hipGraphGetNodes");
  return count;
}

/// Launches on a stream of its own, with poisoned outputs before; what is then wrong with the gradients, empty:
/// nothing.
template <class Launch>
std::string failure_of_replay(Call& call, const Launch& launch) {
  const OwnedStream stream;
  call.device.poison_outputs();
  launch(stream.get());
  stream.synchronize();
  return call.failure();
}

/// Writes sequence starts, whatever they are.
inline void set_starts(const CallArguments& arguments, const std::vector<std::int32_t>& q,
                       const std::vector<std::int32_t>& k) {
  const auto copy = [](const std::int32_t* to, const std::vector<std::int32_t>& from) {
    check_hip(hipMemcpy(const_cast<std::int32_t*>(to), from.data(), from.size() * sizeof(std::int32_t),
                        hipMemcpyHostToDevice),
              "hipMemcpy");
  };
  copy(arguments.lengths.seqstart_q, q);
  copy(arguments.lengths.seqstart_k, k);
}

/// Pinned memory as a framework would hand it out, with a count of what is still held.
struct PinnedHeap {
  std::atomic<int> made{0}, released{0};
  std::function<std::shared_ptr<void>(std::size_t)> allocator() {
    return [this](std::size_t bytes) {
      void* memory = nullptr;
      check_hip(hipHostMalloc(&memory, bytes, hipHostMallocDefault), "hipHostMalloc");
      ++made;
      return std::shared_ptr<void>(memory, [this](void* pointer) {
        ++released;
        (void)hipHostFree(pointer);
      });
    };
  }
  ExecutorOptions options() {
    ExecutorOptions options;
    options.pinned_host_alloc = allocator();
    return options;
  }
};

/// Holds a stream up until it is opened.
class Gate {
 public:
  explicit Gate(hipStream_t stream) {
    const auto wait = [](void* flag) {
      while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
    };
    check_hip(hipLaunchHostFunc(stream, wait, &is_open_), "hipLaunchHostFunc");
  }
  /// The stream must have passed it before this object goes.
  void open() { is_open_ = true; }

 private:
  std::atomic<bool> is_open_{false};
};

/// Says so where a test needs a second device and there is none.
inline bool has_second_device() {
  int count = 0;
  check_hip(hipGetDeviceCount(&count), "hipGetDeviceCount");
  if (count < 2) MESSAGE("left out: it needs a second device");
  return count >= 2;
}

/// A change to arguments that makes a call wrong.
struct BadCall {
  const char* names;  ///< what the message must contain
  std::function<void(CallArguments&)> spoil;
};

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Waits until `condition` holds, 20 seconds at most.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace fmhax::test
