// What docs/graphs.md promises to those who capture calls, where no other test shows it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "contract_fixture.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// What is enqueued on `later` from here on waits for what `earlier` has by now; also within a capture.
void order(hipStream_t earlier, hipStream_t later) {
  hipEvent_t event = nullptr;
  check_hip(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreateWithFlags");
  check_hip(hipEventRecord(event, earlier), "hipEventRecord");
  check_hip(hipStreamWaitEvent(later, event, 0), "hipStreamWaitEvent");
  check_hip(hipEventDestroy(event), "hipEventDestroy");
}

}  // namespace

TEST_CASE("a call is captured in every capture mode") {
  Call call(long_case());
  for (const hipStreamCaptureMode mode :
       {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    const CapturedGraph captured([&](hipStream_t s) { call.executor.enqueue(call.arguments(), s); }, mode);
    check_replay(call, [&](hipStream_t s) { captured.launch(s); });
  }
}

TEST_CASE("two executors on forked streams in one capture replay other lengths, whatever was destroyed before") {
  std::array<int, 4> destruction{};
  std::iota(destruction.begin(), destruction.end(), 0);
  Call left(group_case({130, 0, 1, 60}, 200, 31));
  Call right(group_case({40, 150}, 240, 32));
  do {
    auto left_executor = std::make_unique<Executor>(left.executor.problem());
    auto right_executor = std::make_unique<Executor>(right.executor.problem());
    auto trunk = std::make_unique<OwnedStream>();
    auto branch = std::make_unique<OwnedStream>();
    check_hip(hipStreamBeginCapture(trunk->get(), hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
    order(trunk->get(), branch->get());
    left_executor->enqueue(left.arguments(), trunk->get());
    right_executor->enqueue(right.arguments(), branch->get());
    order(branch->get(), trunk->get());
    hipGraph_t graph = nullptr;
    check_hip(hipStreamEndCapture(trunk->get(), &graph), "hipStreamEndCapture");
    const hipGraphExec_t executable = instantiate(graph);

    const std::array<std::function<void()>, 4> destroy{[&] { left_executor.reset(); }, [&] { right_executor.reset(); },
                                                       [&] { trunk.reset(), branch.reset(); },
                                                       [&] { check_hip(hipGraphDestroy(graph), "hipGraphDestroy"); }};
    for (const int what : destruction) destroy[static_cast<std::size_t>(what)]();
    left.load(group_case({0, 77, 100, 20}, 200, 33));
    right.load(group_case({220, 3}, 240, 34));
    right.device.poison_outputs();
    check_replay(left, [&](hipStream_t s) { check_hip(hipGraphLaunch(executable, s), "hipGraphLaunch"); });
    CHECK(right.failure() == "");
    check_hip(hipGraphExecDestroy(executable), "hipGraphExecDestroy");
  } while (std::next_permutation(destruction.begin(), destruction.end()));
}

TEST_CASE("one captured preparation serves two deterministic layers, lengths from host memory are refused") {
  Call first(long_case(1));
  Call second(long_case(2));
  second.arguments().workspace = first.arguments().workspace;
  const CapturedGraph captured([&](hipStream_t stream) {
    SequenceLengths host_lengths;
    const std::vector<std::int32_t>& starts = first.prepared.source.lengths.q.seqstart;
    host_lengths.seqstart_q = host_lengths.seqstart_k = starts.data();
    CHECK_THROWS_WITH_AS(first.executor.prepare_workspace(first.arguments(), host_lengths, stream),
                         doctest::Contains("prepare_workspace_async"), Error);
    first.executor.prepare_workspace_async(first.arguments(), stream);
    first.executor.enqueue_kernels(first.arguments(), stream);
    first.executor.enqueue_kernels(second.arguments(), stream);
  });
  for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{20, 250, 0, 130}, {1, 299, 100, 0}}) {
    first.load(group_case(lengths, kCapacity, 5));
    second.load(group_case(lengths, kCapacity, 6));
    second.device.poison_outputs();
    check_replay(first, [&](hipStream_t s) { captured.launch(s); });
    CHECK(second.failure() == "");
  }
}

TEST_CASE("a clone is instantiated and replayed after graph, executor and arguments are gone, then the status read") {
  Call call(long_case());
  Call other(group_case({7, 130, 190, 3}, kCapacity, 13));  // would take staging that came back too early
  std::optional<Executor> executor(call.executor.problem());
  std::optional<CallArguments> arguments(call.arguments());
  arguments->status = StatusBuffer::create();
  const StatusBuffer status = arguments->status;
  hipGraph_t clone = nullptr;
  {
    const CapturedGraph captured([&](hipStream_t stream) { executor->enqueue(*arguments, stream); });
    check_hip(hipGraphClone(&clone, captured.graph()), "hipGraphClone");
  }
  executor.reset();
  arguments.reset();
  const std::array<hipGraphExec_t, 2> executables{instantiate(clone), instantiate(clone)};
  check_hip(hipGraphDestroy(clone), "hipGraphDestroy");
  for (const hipGraphExec_t executable : executables) {
    call.load(group_case({20, 250, 0, 130}, kCapacity, 12));
    check_replay(other, [&](hipStream_t s) {
      for (int i = 0; i < 3; ++i) other.executor.enqueue(other.arguments(), s);
    });
    check_replay(call, [&](hipStream_t s) { check_hip(hipGraphLaunch(executable, s), "hipGraphLaunch"); });
    check_hip(hipGraphExecDestroy(executable), "hipGraphExecDestroy");
  }
  CHECK(status.read().checks == 2);
}

TEST_CASE("each call of a capture reports to its own status, and NaN stays with the call that is wrong") {
  Call good(long_case(3));
  Call bad(group_case({150, 140}, 300, 4));
  good.arguments().status = StatusBuffer::create();
  bad.arguments().status = StatusBuffer::create();
  const CapturedGraph captured([&](hipStream_t stream) {
    good.executor.enqueue(good.arguments(), stream);
    bad.executor.enqueue(bad.arguments(), stream);
  });
  set_starts(bad.arguments(), {0, 150, 301});
  bad.device.poison_outputs();
  check_replay(good, [&](hipStream_t s) { captured.launch(s); });
  CHECK(good.arguments().status.read().code == StatusCode::ok);
  CHECK(bad.arguments().status.read().code == StatusCode::exceeds_tokens);
  const Gradients gradients = bad.device.download_gradients();
  for (const auto* gradient : {&gradients.dq, &gradients.dk, &gradients.dv}) {
    CHECK(std::all_of(gradient->data.begin(), gradient->data.end(), [](double x) { return std::isnan(x); }));
  }
}

TEST_CASE("threads capture, replay and enqueue with one executor at once, each on a workspace of its own") {
  const Executor executor(long_case().problem);
  std::vector<std::unique_ptr<Call>> calls;
  for (std::uint64_t i = 0; i < 4; ++i) calls.push_back(std::make_unique<Call>(long_case(i + 1)));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (const auto& call : calls) {
    threads.emplace_back([&] {
      const OwnedStream stream;
      for (int round = 0; round < 5; ++round) {
        call->device.poison_outputs();
        executor.enqueue(call->arguments(), stream.get());
        stream.synchronize();
        if (!call->failure().empty()) ++failures;
        const CapturedGraph captured([&](hipStream_t s) { executor.enqueue(call->arguments(), s); },
                                     hipStreamCaptureModeThreadLocal);
        call->device.poison_outputs();
        captured.launch(stream.get());
        stream.synchronize();
        if (!call->failure().empty()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a call that is refused leaves the capture whole, with the calls before and after it") {
  Call call(long_case());
  Call second(group_case({150, 140}, 300, 4));
  CallArguments bad = call.arguments();
  bad.dk.data = nullptr;
  const CapturedGraph captured([&](hipStream_t stream) {
    call.executor.enqueue(call.arguments(), stream);
    CHECK_THROWS_AS(call.executor.enqueue(bad, stream), Error);
    second.executor.enqueue(second.arguments(), stream);
  });
  second.device.poison_outputs();
  check_replay(call, [&](hipStream_t s) { captured.launch(s); });
  CHECK(second.failure() == "");
}

TEST_CASE("a capture that became invalid is an error, can be ended, and the stream is as good as before") {
  Call call(long_case());
  const OwnedStream stream;
  check_hip(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
  call.executor.enqueue(call.arguments(), stream.get());
  CHECK(hipStreamSynchronize(stream.get()) != hipSuccess);  // not allowed while capturing
  try {
    call.executor.enqueue(call.arguments(), stream.get());
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::hip);
    CHECK(error.hip_error() == hipErrorStreamCaptureInvalidated);
  }
  hipGraph_t graph = nullptr;
  CHECK(hipStreamEndCapture(stream.get(), &graph) == hipErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  (void)hipGetLastError();

  call.device.poison_outputs();
  call.executor.enqueue(call.arguments(), stream.get());
  stream.synchronize();
  CHECK(call.failure() == "");
  check_hip(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
  call.executor.enqueue(call.arguments(), stream.get());
  check_hip(hipStreamEndCapture(stream.get(), &graph), "hipStreamEndCapture");
  const hipGraphExec_t executable = instantiate(graph);
  check_replay(call, [&](hipStream_t s) { check_hip(hipGraphLaunch(executable, s), "hipGraphLaunch"); });
  check_hip(hipGraphExecDestroy(executable), "hipGraphExecDestroy");
  check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
}
