// Thousands of calls and replays, with memory that must not grow.
#include <atomic>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers keep freed memory, and take ten times as long.
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

/// Resident memory of this process in KiB.
std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

struct Memory {
  std::int64_t resident = 0;
  std::size_t pinned = 0;
  std::size_t in_use = 0;
};

Memory memory_now(detail::StagingPool& pool) {
  // The last blocks come home a moment after their streams are idle.
  (void)eventually([&] { return (pool.collect(), pool.counters().in_use == 0); });
  const detail::StagingPoolCounters counters = pool.counters();
  return {resident_kib(), counters.pinned_bytes, counters.in_use};
}

void check_flat(const char* what, const Memory& start, const Memory& end) {
  MESSAGE(std::string(what) << ": resident " << start.resident << " KiB at the start, " << end.resident
                            << " KiB at the end; pinned " << start.pinned << " and " << end.pinned << " bytes");
  CHECK(end.in_use == 0);
  if (!kIsSanitized) CHECK(end.resident - start.resident < 4096);
}

/// One call whose sequence starts change from replay to replay, in stream order, with the bits that each must give.
class Replayed {
 public:
  Replayed(Call& call, hipStream_t stream) : call_(call), stream_(stream) {
    const CallArguments& a = call.arguments();
    const auto rows = static_cast<std::size_t>(call.executor.problem().total_q);
    for (const TensorView* view : {&a.dq, &a.dk, &a.dv}) {
      outputs_.push_back({view->data, rows * static_cast<std::size_t>(view->nhead * view->hdim) * sizeof(float)});
      bytes_ += outputs_.back().bytes;
    }
    check_hip(hipHostMalloc(reinterpret_cast<void**>(&pinned_), bytes_, hipHostMallocDefault), "hipHostMalloc");
  }
  ~Replayed() { (void)hipHostFree(pinned_); }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

  /// What an eager call gives for these starts, with nothing else in flight.
  void add_variant(const std::vector<std::int32_t>& starts) {
    starts_.push_back(starts);
    expected_.emplace_back();
    begin(starts_.size() - 1);
    call_.executor.enqueue(call_.arguments(), stream_);
    expected_.back() = results();
  }

  /// Enqueues a variant's starts, and NaN into the outputs.
  void begin(std::size_t variant) {
    const std::vector<std::int32_t>& starts = starts_[variant];
    const std::size_t bytes = starts.size() * sizeof(std::int32_t);
    const SequenceLengths& lengths = call_.arguments().lengths;
    for (const std::int32_t* to : {lengths.seqstart_q, lengths.seqstart_k}) {
      check_hip(hipMemcpyAsync(const_cast<std::int32_t*>(to), starts.data(), bytes, hipMemcpyHostToDevice, stream_),
                "hipMemcpyAsync");
    }
    for (const Output& output : outputs_) {
      check_hip(hipMemsetAsync(output.data, 0xFF, output.bytes, stream_), "hipMemsetAsync");
    }
  }
  /// Waits, and compares with the variant's bits.
  bool is_right(std::size_t variant) { return results() == expected_[variant]; }

 private:
  struct Output {
    void* data;
    std::size_t bytes;
  };

  std::vector<std::byte> results() {
    std::byte* to = pinned_;
    for (const Output& output : outputs_) {
      check_hip(hipMemcpyAsync(to, output.data, output.bytes, hipMemcpyDeviceToHost, stream_), "hipMemcpyAsync");
      to += output.bytes;
    }
    check_hip(hipStreamSynchronize(stream_), "hipStreamSynchronize");
    return {pinned_, pinned_ + bytes_};
  }

  Call& call_;
  hipStream_t stream_;
  std::vector<Output> outputs_;
  std::size_t bytes_ = 0;
  std::byte* pinned_ = nullptr;
  std::vector<std::vector<std::int32_t>> starts_;
  std::vector<std::vector<std::byte>> expected_;
};

}  // namespace

TEST_CASE("memory: 24 threads with 1 000 eager calls each, of different shapes, on 8 streams") {
  constexpr int kThreads = 24;
  constexpr int kStreams = 8;
  constexpr int kCalls = kIsSanitized ? 100 : 1000;
  constexpr int kInARow = 5;
  std::vector<OwnedStream> streams(kStreams);
  std::vector<std::unique_ptr<Call>> calls;
  for (int t = 0; t < kThreads; ++t) {
    // Lengths, counts of sequences and so sizes of staging that all differ.
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(2 + 7 * t), 1);
    lengths[0] = 20 + t;
    Case c = group_case(lengths, 400, static_cast<std::uint64_t>(t + 1));
    c.problem.is_deterministic = t % 2 == 0;
    ExecutorOptions options;
    if (t % 3 == 1) options.keepalive = Keepalive::host_function;
    if (t % 8 == 7) options.metadata_path = MetadataPath::device;
    calls.push_back(std::make_unique<Call>(c, options));
  }
  detail::StagingPool& pool = calls.front()->executor.state()->pool;
  std::atomic<int> wrong{0};
  const auto run = [&](int count) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Call& call = *calls[static_cast<std::size_t>(t)];
        const OwnedStream& stream = streams[static_cast<std::size_t>(t % kStreams)];
        for (int i = 0; i < count; i += kInARow) {
          for (int j = 0; j < kInARow; ++j) call.executor.enqueue(call.arguments(), stream.get());
          stream.synchronize();
          if (i % (count / 2) != 0) continue;
          if (!call.failure().empty()) ++wrong;
          call.device.poison_outputs();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  run(kCalls / 5);
  const Memory start = memory_now(pool);
  for (const auto& call : calls) call->device.poison_outputs();
  run(kCalls);
  const Memory end = memory_now(pool);
  check_flat("24 000 eager calls", start, end);
  // At most what all threads can have out at once, and what hides behind blocks of streams that lag.
  const std::size_t largest = 1U << 14;
  CHECK(end.pinned <= largest * (kThreads * kInARow + 16));
  CHECK(wrong == 0);
}

TEST_CASE("memory: 10 000 replays of one graph with changing sequence starts, each checked bit for bit") {
  constexpr int kReplays = kIsSanitized ? 500 : 10000;
  constexpr std::size_t kVariants = 16;
  constexpr std::int64_t kTokens = 140;
  Call call(group_case({60, 0, 1, 79}, kTokens, 1));
  Call other(group_case({130, 60}, 190, 2));  // eager work of another shape between the replays
  const OwnedStream stream;
  const OwnedStream beside;
  Replayed replayed(call, stream.get());
  std::mt19937 random(4);
  for (std::size_t v = 0; v < kVariants; ++v) {
    std::vector<std::int32_t> starts{0};
    for (int i = 0; i < 4; ++i) starts.push_back(starts.back() + static_cast<std::int32_t>(random() % 36));
    replayed.add_variant(starts);
  }
  Graph graph(call.executor, call.arguments());
  const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); });
  other.device.poison_outputs();

  int wrong = 0;
  const auto replay = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::size_t variant = random() % kVariants;
      replayed.begin(variant);
      i % 2 == 0 ? graph.launch(stream.get()) : captured.launch(stream.get());
      if (i % 10 == 0) other.executor.enqueue(other.arguments(), beside.get());
      if (!replayed.is_right(variant)) ++wrong;
    }
    beside.synchronize();
  };
  detail::StagingPool& pool = call.executor.state()->pool;
  const auto memory = [&pool] {
    pool.collect();
    const detail::StagingPoolCounters counters = pool.counters();
    return Memory{resident_kib(), counters.pinned_bytes, 0};
  };
  replay(kReplays / 10);
  const Memory start = memory();
  replay(kReplays);
  const Memory end = memory();
  check_flat("10 000 replays", start, end);
  CHECK(end.pinned == start.pinned);
  CHECK(wrong == 0);
  CHECK(other.failure() == "");
}
