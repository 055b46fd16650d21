// Which HIP calls a call makes, one by one: what they cost is most of the host's part on a GPU.
#include <hiphost/observe.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "eager_graphs.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

using Calls = std::vector<std::string>;

std::string joined(const Calls& calls) {
  std::string text;
  for (const std::string& call : calls) text += call + ' ';
  return text;
}

/// The calls of this thread while it lives.
class CallLog final : public hiphost::ApiObserver {
 public:
  void entered(const char* function) noexcept override {
    if (std::this_thread::get_id() == thread_) calls_.emplace_back(function);
  }
  void left(const char*, hipError_t) noexcept override {}
  Calls calls() const { return calls_; }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  Calls calls_;
};

template <class Work>
Calls calls_of(const Work& work) {
  CallLog log;
  const hiphost::ApiObservation observation(log);
  work();
  return log.calls();
}

/// The same once a first run has made what is made but once; the stream is idle before.
template <class Work>
Calls steady_calls_of(const OwnedStream& stream, const Work& work) {
  work();
  stream.synchronize();
  return calls_of(work);
}

std::size_t count(const Calls& calls, const char* function) {
  return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), function));
}

ExecutorOptions on_device() {
  ExecutorOptions options;
  options.metadata_path = MetadataPath::device;
  return options;
}

/// Free staging, so that no call asks for what has finished.
void fill_pool(const Executor& executor) {
  detail::StagingPool& pool = executor.state()->pool;
  pool.collect();
  for (const std::size_t bytes : {std::size_t{0}, executor.state()->staging.bytes}) {
    std::array<detail::StagingBlock*, 4> blocks{};
    for (detail::StagingBlock*& block : blocks) block = pool.acquire(bytes, {});
    for (detail::StagingBlock* block : blocks) detail::StagingPool::hand_back(block);
  }
  pool.collect();
}

const Calls kOnceForEachCall{"hipGetDevice", "hipStreamGetDevice", "hipStreamGetCaptureInfo_v2"};

Calls with(Calls calls, const Calls& more) {
  calls.insert(calls.end(), more.begin(), more.end());
  return calls;
}

/// An eager call in the steady state asks what it must and launches three kernels, and the gradients are right.
void check_three_launches(const Case& c, const ExecutorOptions& options) {
  Call call(c, options);
  call.arguments().status = {};
  const OwnedStream stream;
  const Calls calls = steady_calls_of(stream, [&] { call.executor.enqueue(call.arguments(), stream.get()); });
  CHECK(joined(calls) == joined(with(kOnceForEachCall, {"hipLaunchKernel", "hipLaunchKernel", "hipLaunchKernel"})));
  stream.synchronize();
  CHECK(call.failure() == "");
}

}  // namespace

TEST_CASE("calls: an eager call with metadata on the device asks three questions and launches its kernels") {
  check_three_launches(long_case(), on_device());
}

TEST_CASE("calls: where eager calls are graphs, one launch and its event take the kernels' place") {
  Call call(long_case(), on_device());
  call.arguments().status = {};
  const OwnedStream stream;
  detail::use_eager_graphs(true);
  const Calls calls = steady_calls_of(stream, [&] { call.executor.enqueue(call.arguments(), stream.get()); });
  call.arguments().scale *= 2;
  const Calls changed = calls_of([&] { call.executor.enqueue(call.arguments(), stream.get()); });
  detail::use_eager_graphs(false);
  CHECK(joined(calls) == joined(with(kOnceForEachCall, {"hipGraphLaunch", "hipEventRecord"})));
  CHECK(count(changed, "hipGraphExecKernelNodeSetParams") == 3);
  CHECK(count(changed, "hipGraphLaunch") == 1);
  stream.synchronize();
}

TEST_CASE("calls: in batch mode an eager call launches as many kernels, whoever packs") {
  for (const ExecutorOptions& options : {ExecutorOptions{}, on_device()}) check_three_launches(batch_case(), options);
}

TEST_CASE("calls: a status costs an event, not questions about other calls") {
  Call call(long_case(), on_device());
  call.arguments().status = StatusBuffer::create();
  const OwnedStream stream;
  const auto enqueue = [&] { call.executor.enqueue(call.arguments(), stream.get()); };
  Gate gate(stream.get());
  for (int i = 0; i < 300; ++i) enqueue();
  const Calls behind = calls_of(enqueue);
  CHECK(count(behind, "hipEventQuery") == 1);  // the oldest of them; the others follow it
  gate.open();
  stream.synchronize();
  fill_pool(call.executor);
  const Calls calls = calls_of(enqueue);
  CHECK(joined(calls) ==
        joined(with(kOnceForEachCall, {"hipLaunchKernel", "hipLaunchKernel", "hipLaunchKernel", "hipEventRecord"})));
  stream.synchronize();
}

TEST_CASE("calls: the host chain adds its copies, its function, the fork and the join") {
  Call call(long_case());
  const OwnedStream stream;
  const auto enqueue = [&] { call.executor.enqueue(call.arguments(), stream.get()); };
  enqueue();
  stream.synchronize();
  fill_pool(call.executor);
  const Calls calls = calls_of(enqueue);
  CHECK(count(calls, "hipPointerGetAttributes") == 0);
  CHECK(count(calls, "hipEventQuery") == 0);
  CHECK(count(calls, "hipMemcpyAsync") == 3);
  CHECK(count(calls, "hipLaunchHostFunc") == 1);
  CHECK(count(calls, "hipMemsetAsync") == 1);
  CHECK(count(calls, "hipLaunchKernel") == 3);
  CHECK(count(calls, "hipEventRecord") == 3);
  CHECK(count(calls, "hipStreamWaitEvent") == 2);
  CHECK(calls.size() == kOnceForEachCall.size() + 13);
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("calls: a graph's launch asks three questions, waits for the launch before and is followed by an event") {
  Call call(long_case(), on_device());
  Graph graph(call.executor, call.arguments());
  const OwnedStream stream;
  const Calls calls = steady_calls_of(stream, [&] { graph.launch(stream.get()); });
  CHECK(joined(calls) == joined(with(kOnceForEachCall, {"hipStreamWaitEvent", "hipGraphLaunch", "hipEventRecord"})));
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("calls: every new buffer is asked about once, and a wrong one is refused however often it comes") {
  Call call(long_case(), on_device());
  const OwnedStream stream;
  const auto enqueue = [&] { call.executor.enqueue(call.arguments(), stream.get()); };
  const Calls first = calls_of(enqueue);
  CHECK(count(first, "hipPointerGetAttributes") == 13);  // ten tensors, two arrays of starts, the workspace
  std::vector<float> pageable(100'000);
  CallArguments wrong = call.arguments();
  wrong.dq.data = pageable.data();
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(call.executor.enqueue(wrong, stream.get()), Error);
  stream.synchronize();
}
