// What a call costs the caller's thread, beside the HIP calls that it is made of: µs each, with the device kept out of
// the way by a tiny problem and by waiting for it now and then, outside of the timing.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "device_check/device_check.h"
#include "fmhax/fmhax.hpp"

namespace {

using namespace fmhax;

void check(hipError_t error) {
  if (error != hipSuccess) throw std::runtime_error(hipGetErrorName(error));
}

class Stream {
 public:
  Stream() { check(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking)); }
  ~Stream() { (void)hipStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator hipStream_t() const { return stream_; }
  void wait() const { check(hipStreamSynchronize(stream_)); }

 private:
  hipStream_t stream_ = nullptr;
};

/// One head, four packed sequences of 16 tokens within a capacity of 1024: every node of a call, and hardly any work.
/// In batch mode one sequence of 1024.
class TinyCall {
 public:
  explicit TinyCall(MetadataPath path, bool is_group_mode = true) : executor_(problem(is_group_mode), options(path)) {
    for (auto* view : {&call_.q, &call_.k, &call_.v, &call_.o, &call_.dout, &call_.dq, &call_.dk, &call_.dv}) {
      *view = TensorView::thd(allocate(kCapacity * kHdim * 2), DataType::bf16, kCapacity, 1, kHdim);
    }
    for (auto* view : {&call_.lse, &call_.d}) {
      *view = TensorView::rows_ht(static_cast<float*>(allocate(kCapacity * 4)), 1, kCapacity);
    }
    if (is_group_mode) {
      constexpr std::array<std::int32_t, 5> kStarts{0, 16, 32, 48, 64};
      auto* starts = static_cast<std::int32_t*>(allocate(sizeof(kStarts)));
      check(hipMemcpy(starts, kStarts.data(), sizeof(kStarts), hipMemcpyHostToDevice));
      call_.lengths.seqstart_q = call_.lengths.seqstart_k = starts;
    }
    call_.workspace_bytes = executor_.workspace_size();
    if (call_.workspace_bytes > 0) call_.workspace = allocate(call_.workspace_bytes);
  }

  const Executor& executor() const { return executor_; }
  CallArguments& arguments() { return call_; }

 private:
  static constexpr std::int64_t kCapacity = 1024;
  static constexpr std::int64_t kHdim = 64;

  static Problem problem(bool is_group_mode) {
    Problem p;
    p.is_group_mode = is_group_mode;
    p.batch = is_group_mode ? 4 : 1;
    p.nhead_q = p.nhead_k = 1;
    p.hdim_q = p.hdim_v = kHdim;
    p.max_seqlen_q = p.max_seqlen_k = kCapacity;
    if (is_group_mode) p.total_q = p.total_k = kCapacity;
    p.mask = Mask::causal();
    return p;
  }
  static ExecutorOptions options(MetadataPath path) {
    ExecutorOptions options;
    options.metadata_path = path;
    return options;
  }
  void* allocate(std::int64_t bytes) {
    void* memory = nullptr;
    check(hipMalloc(&memory, static_cast<std::size_t>(bytes)));
    memory_.emplace_back(memory, [](void* allocated) { (void)hipFree(allocated); });
    std::vector<unsigned char> zeroes(static_cast<std::size_t>(bytes), 0);
    check(hipMemcpy(memory, zeroes.data(), zeroes.size(), hipMemcpyHostToDevice));
    return memory;
  }

  std::vector<std::shared_ptr<void>> memory_;
  Executor executor_;
  CallArguments call_;
};

int rounds = 200;

/// The median over many rounds of a round's mean.
void print_cost(const char* what, const Stream& stream, const std::function<void()>& work) {
  constexpr int kInARow = 20;
  constexpr int kWarmUp = 5;
  std::vector<double> microseconds;
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kInARow; ++i) work();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    stream.wait();
    if (round >= kWarmUp) microseconds.push_back(taken.count() / kInARow);
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%-56s %8.3f\n", what, microseconds[microseconds.size() / 2]);
}

void print_hip_calls(TinyCall& tiny, const Stream& stream) {
  int device = 0;
  print_cost("hipGetDevice", stream, [&] { check(hipGetDevice(&device)); });
  print_cost("hipStreamGetDevice", stream, [&] { check(hipStreamGetDevice(stream, &device)); });
  print_cost("hipStreamGetCaptureInfo_v2", stream, [&] {
    hipStreamCaptureStatus status{};
    hipGraph_t graph = nullptr;
    const hipGraphNode_t* dependencies = nullptr;
    std::size_t count = 0;
    unsigned long long id = 0;
    check(hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count));
  });
  print_cost("hipPointerGetAttributes", stream, [&] {
    hipPointerAttribute_t attributes{};
    check(hipPointerGetAttributes(&attributes, tiny.arguments().q.data));
  });
  hipEvent_t event = nullptr;
  check(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  print_cost("hipEventRecord", stream, [&] { check(hipEventRecord(event, stream)); });
  print_cost("hipEventQuery of a finished event", stream, [&] { check(hipEventQuery(event)); });
  print_cost("hipStreamWaitEvent", stream, [&] { check(hipStreamWaitEvent(stream, event, 0)); });
  check(hipEventDestroy(event));

  // One of the plan's kernels, so that the arguments have their size; with no rows it does nothing.
  KernelParams params;
  params.problem = tiny.executor().problem();
  params.q = {tiny.arguments().q.data, 0, 64, 64};
  params.lengths = tiny.arguments().lengths;
  params.o = params.dout = params.dq = params.q;
  params.lse = params.d = {tiny.arguments().lse.data, 0, 1, 1};
  KernelLaunch launch;
  const KernelEntry& entry = tiny.executor().kernel_choice().entry();
  if (entry.form_launch(KernelRole::dot_do_o, tiny.executor().device(), params, launch)) {
    std::array<void*, KernelLaunch::kMaxArguments> arguments{};
    for (std::uint32_t i = 0; i < launch.argument_count; ++i) {
      arguments[i] = launch.arguments + launch.argument_offset[i];
    }
    print_cost("hipLaunchKernel of dot_do_o", stream, [&] {
      check(hipLaunchKernel(launch.function, dim3(launch.grid[0], launch.grid[1], launch.grid[2]),
                            dim3(launch.block[0], launch.block[1], launch.block[2]), arguments.data(),
                            launch.shared_bytes, stream));
    });
  }
  Graph graph(tiny.executor(), tiny.arguments());
  hipGraphExec_t executable = nullptr;
  check(hipGraphInstantiate(&executable, graph.native(), nullptr, nullptr, 0));
  print_cost("hipGraphLaunch of the call's graph", stream, [&] { check(hipGraphLaunch(executable, stream)); });
  check(hipGraphExecDestroy(executable));
}

void print_calls(const char* path, TinyCall& tiny, const Stream& stream) {
  const auto label = [path](const char* what) { return std::string(what) + ", metadata by the " + path; };
  print_cost(label("Executor::enqueue").c_str(), stream, [&] { tiny.executor().enqueue(tiny.arguments(), stream); });
  tiny.arguments().status = StatusBuffer::create();
  print_cost(label("Executor::enqueue with a status").c_str(), stream,
             [&] { tiny.executor().enqueue(tiny.arguments(), stream); });
  tiny.arguments().status = {};
  print_cost(label("Executor::enqueue_kernels").c_str(), stream,
             [&] { tiny.executor().enqueue_kernels(tiny.arguments(), stream); });
  Graph graph(tiny.executor(), tiny.arguments());
  print_cost(label("Graph::launch").c_str(), stream, [&] { graph.launch(stream); });
  GraphCache cache(1);
  print_cost(label("GraphCache::launch, the same call").c_str(), stream,
             [&] { cache.launch(tiny.executor(), tiny.arguments(), stream); });
  CallArguments changing = tiny.arguments();
  print_cost(label("GraphCache::launch, another call each time").c_str(), stream, [&] {
    changing.scale = changing.scale == 1.0F ? 0.5F : 1.0F;
    cache.launch(tiny.executor(), changing, stream);
  });
}

}  // namespace

// The one argument is how many rounds are timed, for use under an instrument that takes its time.
int main(int argc, char** argv) {
  if (!require_device("host_call_cost")) return kNoDeviceStatus;
  try {
    if (argc > 1) rounds = std::max(std::atoi(argv[1]), 1);
    const Stream stream;
    TinyCall on_device(MetadataPath::device);
    TinyCall on_host(MetadataPath::host);
    std::printf("kernel %s on %s; µs of the calling thread\n", on_device.executor().kernel_choice().entry().name,
                on_device.executor().device().arch);
    print_hip_calls(on_device, stream);
    print_calls("device", on_device, stream);
    print_calls("host", on_host, stream);
    TinyCall in_batch(MetadataPath::host, false);
    print_cost("Executor::enqueue in batch mode", stream,
               [&] { in_batch.executor().enqueue(in_batch.arguments(), stream); });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
