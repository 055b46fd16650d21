// What a call costs the host: the caller's thread alone, with the device kept out of the way by problems that are tiny.
#include <hip/hip_runtime.h>
#include <hiphost/kernel.hpp>

#include <memory>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "fmhax/fmhax.hpp"

namespace {

using namespace fmhax;

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kSeqlen = 16;
constexpr std::int64_t kCapacity = 1024;  // group mode: tokens, and the longest sequence
constexpr std::int64_t kHdim = 32;

void check(hipError_t error) {
  if (error != hipSuccess) throw std::runtime_error(hipGetErrorName(error));
}

/// A call with one head and four short sequences. In batch mode it needs no workspace and is a single kernel; in group
/// mode the capacity allows long sequences, so the call takes the whole way: fetch, pack, upload, zero, three kernels.
class TinyCall {
 public:
  explicit TinyCall(bool is_group_mode) : executor_(make_problem(is_group_mode)) {
    const std::int64_t batch = is_group_mode ? 1 : kBatch;
    const std::int64_t seqlen = is_group_mode ? kCapacity : kSeqlen;
    const std::int64_t rows = batch * seqlen;
    for (auto* view : {&call_.q, &call_.k, &call_.v, &call_.o, &call_.dout, &call_.dq, &call_.dk, &call_.dv}) {
      *view = TensorView::bshd(allocate(rows * kHdim * 4), DataType::fp32, batch, seqlen, 1, kHdim);
    }
    for (auto* view : {&call_.lse, &call_.d}) {
      *view = TensorView::rows_bhs(static_cast<float*>(allocate(rows * 4)), batch, 1, seqlen);
    }
    if (is_group_mode) {
      std::vector<std::int32_t> starts(kBatch + 1);
      for (std::size_t i = 0; i < starts.size(); ++i)
        starts[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * kSeqlen);
      auto* device_starts = static_cast<std::int32_t*>(allocate(static_cast<std::int64_t>(starts.size()) * 4));
      check(hipMemcpy(device_starts, starts.data(), starts.size() * 4, hipMemcpyHostToDevice));
      call_.lengths.seqstart_q = call_.lengths.seqstart_k = device_starts;
    }
    call_.workspace_bytes = executor_.workspace_size();
    if (call_.workspace_bytes > 0) call_.workspace = allocate(call_.workspace_bytes);
  }

  const Executor& executor() const { return executor_; }
  const CallArguments& call() const { return call_; }

 private:
  static Problem make_problem(bool is_group_mode) {
    Problem problem;
    problem.dtype = DataType::fp32;
    problem.is_group_mode = is_group_mode;
    problem.is_deterministic = true;
    problem.batch = kBatch;
    problem.nhead_q = problem.nhead_k = 1;
    problem.hdim_q = problem.hdim_v = kHdim;
    problem.max_seqlen_q = problem.max_seqlen_k = is_group_mode ? kCapacity : kSeqlen;
    if (is_group_mode) problem.total_q = problem.total_k = kCapacity;
    problem.mask = Mask::causal();
    return problem;
  }

  void* allocate(std::int64_t bytes) {
    void* memory = nullptr;
    check(hipMalloc(&memory, static_cast<std::size_t>(bytes)));
    memory_.emplace_back(memory, [](void* allocated) { (void)hipFree(allocated); });
    check(hipMemset(memory, 0, static_cast<std::size_t>(bytes)));
    return memory;
  }

  std::vector<std::shared_ptr<void>> memory_;
  Executor executor_;
  CallArguments call_;
};

/// A stream for the time of one benchmark.
struct BenchStream {
  BenchStream() { check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking)); }
  ~BenchStream() { (void)hipStreamDestroy(stream); }
  BenchStream(const BenchStream&) = delete;
  BenchStream& operator=(const BenchStream&) = delete;
  hipStream_t stream = nullptr;
};

/// Times `enqueue(stream)`. The queue is emptied now and then, outside of the timing, so that it stays short.
template <class Enqueue>
void time_enqueue(benchmark::State& state, Enqueue&& enqueue) {
  constexpr int kMostQueued = 64;
  const BenchStream owner;
  int queued = 0;
  for ([[maybe_unused]] auto iteration : state) {
    enqueue(owner.stream);
    if (++queued == kMostQueued) {
      state.PauseTiming();
      check(hipStreamSynchronize(owner.stream));
      queued = 0;
      state.ResumeTiming();
    }
  }
  check(hipStreamSynchronize(owner.stream));
}

void eager_enqueue(benchmark::State& state, bool is_group_mode) {
  const TinyCall tiny(is_group_mode);
  state.counters["workspace_bytes"] = static_cast<double>(tiny.call().workspace_bytes);
  time_enqueue(state, [&](hipStream_t stream) { tiny.executor().enqueue(tiny.call(), stream); });
}

void graph_launch(benchmark::State& state, bool is_group_mode) {
  const TinyCall tiny(is_group_mode);
  Graph graph(tiny.executor(), tiny.call());
  time_enqueue(state, [&](hipStream_t stream) { graph.launch(stream); });
}

void empty_kernel(int) {}

void bare_kernel_launch(benchmark::State& state) {
  const void* function = hiphost::kernel(empty_kernel);
  int argument = 0;
  void* arguments[] = {&argument};
  time_enqueue(state,
               [&](hipStream_t stream) { check(hipLaunchKernel(function, dim3(1), dim3(1), arguments, 0, stream)); });
}

void bare_memcpy_async(benchmark::State& state) {
  constexpr std::size_t kBytes = 64;
  void* device = nullptr;
  void* pinned = nullptr;
  check(hipMalloc(&device, kBytes));
  check(hipHostMalloc(&pinned, kBytes, hipHostMallocDefault));
  time_enqueue(
      state, [&](hipStream_t stream) { check(hipMemcpyAsync(device, pinned, kBytes, hipMemcpyHostToDevice, stream)); });
  check(hipFree(device));
  check(hipHostFree(pinned));
}

void bare_host_function(benchmark::State& state) {
  time_enqueue(state, [](hipStream_t stream) {
    check(hipLaunchHostFunc(
        stream, [](void*) {}, nullptr));
  });
}

BENCHMARK_CAPTURE(eager_enqueue, batch_mode, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(eager_enqueue, group_mode, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(graph_launch, batch_mode, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(graph_launch, group_mode, true)->Unit(benchmark::kMicrosecond);
BENCHMARK(bare_kernel_launch)->Unit(benchmark::kMicrosecond);
BENCHMARK(bare_memcpy_async)->Unit(benchmark::kMicrosecond);
BENCHMARK(bare_host_function)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
