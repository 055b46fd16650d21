// In the steady state nothing on the way of a call allocates or waits, whatever other threads do.
#include <hiphost/observe.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "counted_heap.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 100;
constexpr int kCallsInARow = 4;

/// A call that waits for the device or that a runtime may serve only by waiting for it.
bool waits(std::string_view function) {
  static const std::set<std::string_view> kWaiting{"hipMemcpy",     "hipMemset",   "hipMalloc",     "hipFree",
                                                   "hipHostMalloc", "hipHostFree", "hipEventCreate"};
  return kWaiting.contains(function) || function.find("Synchronize") != std::string_view::npos ||
         function.find("Create") != std::string_view::npos || function.find("Destroy") != std::string_view::npos ||
         function.find("Instantiate") != std::string_view::npos;
}

/// Keeps the names of the calls made inside the library.
class CallWatch final : public hiphost::ApiObserver {
 public:
  static inline thread_local bool in_library = false;

  void entered(const char* function) noexcept override {
    entered_runtime();
    if (!in_library) return;
    ++calls_;
    if (!waits(function)) return;
    const std::lock_guard lock(mutex_);
    waiting_.insert(function);
  }
  void left(const char*, hipError_t) noexcept override { left_runtime(); }

  std::set<std::string> waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  std::uint64_t calls() const { return calls_; }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> waiting_;
  std::atomic<std::uint64_t> calls_{0};
};

/// What all threads together found.
struct Found {
  std::uint64_t allocations = 0;
  std::uint64_t calls = 0;
  std::set<std::string> waiting;
};

/// As many blocks as could ever be out at once, so that no call has to make one.
void fill_pool(const Executor& executor) {
  detail::StagingPool& pool = executor.state()->pool;
  for (const std::size_t bytes : {std::size_t{0}, executor.state()->staging.bytes}) {
    std::vector<detail::StagingBlock*> blocks;
    for (int i = 0; i < kThreads * kCallsInARow * 4; ++i) blocks.push_back(pool.acquire(bytes, {}));
    for (detail::StagingBlock* block : blocks) detail::StagingPool::hand_back(block);
  }
  pool.collect();
}

using Enqueue = std::function<void(Call&, hipStream_t)>;

/// Every thread, with a call and a stream of its own, enqueues again and again and waits in between.
Found watch(std::vector<std::unique_ptr<Call>>& calls, const Enqueue& enqueue) {
  for (const auto& call : calls) fill_pool(call->executor);
  CallWatch watch;
  const hiphost::ApiObservation observation(watch);
  std::atomic<std::uint64_t> allocations{0};
  std::vector<std::thread> threads;
  for (const auto& call : calls) {
    threads.emplace_back([&] {
      const OwnedStream stream;
      for (int round = 0; round < kRounds; ++round) {
        {
          const HeapWatch heap;
          CallWatch::in_library = true;
          for (int i = 0; i < kCallsInARow; ++i) enqueue(*call, stream.get());
          CallWatch::in_library = false;
          allocations += heap.allocations();
        }
        stream.synchronize();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {allocations, watch.calls(), watch.waiting()};
}

std::vector<std::unique_ptr<Call>> calls_of_threads(const ExecutorOptions& options = {}) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kThreads; ++i) {
    calls.push_back(std::make_unique<Call>(
        group_case({100 + 20 * i, 0, 40}, kCapacity - 10 * i, static_cast<std::uint64_t>(i + 1)), options));
    calls.back()->arguments().status = StatusBuffer::create();
    calls.back()->device.poison_outputs();
  }
  return calls;
}

void check(const char* what, const Found& found, const std::vector<std::unique_ptr<Call>>& calls) {
  constexpr int kAll = kThreads * kRounds * kCallsInARow;
  MESSAGE(std::string(what) << ": " << kAll << " calls from " << kThreads << " threads, " << found.allocations
                            << " allocations, " << static_cast<double>(found.calls) / kAll << " HIP calls each");
  CHECK(found.allocations == 0);
  CHECK(found.calls >= kAll);
  CHECK(found.waiting == std::set<std::string>{});
  for (const auto& call : calls) CHECK(call->failure() == "");
}

}  // namespace

TEST_CASE("steady state: an eager enqueue allocates nothing and waits for nothing, from many threads") {
  ExecutorOptions host_function;
  host_function.keepalive = Keepalive::host_function;
  ExecutorOptions on_device;
  on_device.metadata_path = MetadataPath::device;
  const std::array<std::pair<const char*, ExecutorOptions>, 3> ways{{{"enqueue, staging given back by events", {}},
                                                                     {"by host functions", host_function},
                                                                     {"metadata on the device", on_device}}};
  for (const auto& [name, options] : ways) {
    auto calls = calls_of_threads(options);
    const Found found =
        watch(calls, [](Call& call, hipStream_t stream) { call.executor.enqueue(call.arguments(), stream); });
    check(name, found, calls);
  }
}

TEST_CASE("steady state: a graph's launch, and a graph cache's, allocate nothing and wait for nothing") {
  auto calls = calls_of_threads();
  std::map<Call*, std::unique_ptr<Graph>> graphs;
  for (const auto& call : calls) graphs[call.get()] = std::make_unique<Graph>(call->executor, call->arguments());
  check("Graph::launch", watch(calls, [&](Call& call, hipStream_t stream) { graphs.at(&call)->launch(stream); }),
        calls);

  GraphCache cache(kThreads);
  for (const auto& call : calls) cache.launch(call->executor, call->arguments(), nullptr);
  check_hip(hipStreamSynchronize(nullptr), "hipStreamSynchronize");
  for (const auto& call : calls) call->device.poison_outputs();
  const Found found =
      watch(calls, [&](Call& call, hipStream_t stream) { cache.launch(call.executor, call.arguments(), stream); });
  check("GraphCache::launch", found, calls);
  CHECK(cache.counters().misses == kThreads);
}

TEST_CASE("steady state: the watch sees an allocation and a waiting call when there are any") {
  auto calls = calls_of_threads();
  const Found found = watch(calls, [](Call& call, hipStream_t stream) {
    const std::string text(100, 'x');
    call.executor.enqueue(call.arguments(), stream);
    check_hip(hipStreamSynchronize(text.empty() ? nullptr : stream), "hipStreamSynchronize");
  });
  CHECK(found.allocations == kThreads * kRounds * kCallsInARow);
  CHECK(found.waiting == std::set<std::string>{"hipStreamSynchronize"});
}
