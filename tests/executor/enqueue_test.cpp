#include <cmath>
#include <thread>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "executor_state.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

bool all_nan(const verification::DenseTensor& tensor) {
  for (const double value : tensor.data) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

struct BadStarts {
  StatusCode code;
  SequenceSide side;
  std::int64_t sequence;
  std::vector<std::int32_t> q, k;
};

const std::vector<std::int32_t> kGood{0, 300, 300, 301, 378};

}  // namespace

TEST_CASE("sequence starts that are wrong on the device give NaN gradients and a status that says which and how") {
  // One problem for the host chain and one for kernels that check for themselves.
  Case c = long_case();
  c.problem.max_seqlen_q = c.problem.max_seqlen_k = 320;
  Case direct = group_case({60, 0, 1, 30}, 100);
  direct.problem.max_seqlen_q = direct.problem.max_seqlen_k = 64;

  const std::vector<BadStarts> for_chain{
      {StatusCode::first_not_zero, SequenceSide::q, 0, {1, 300, 300, 301, 378}, kGood},
      {StatusCode::decreasing, SequenceSide::k, 1, kGood, {0, 300, 299, 301, 378}},
      {StatusCode::decreasing, SequenceSide::q, 0, {0, -5, 300, 301, 378}, kGood},
      {StatusCode::exceeds_tokens, SequenceSide::q, 3, {0, 300, 300, 301, 401}, kGood},
      {StatusCode::exceeds_tokens, SequenceSide::k, 2, kGood, {0, 300, 300, 2147483647, 378}},
      {StatusCode::exceeds_max_seqlen, SequenceSide::k, 0, kGood, {0, 321, 321, 321, 378}}};
  const std::vector<std::int32_t> good_direct{0, 60, 60, 61, 91};
  const std::vector<BadStarts> for_direct{
      {StatusCode::first_not_zero, SequenceSide::q, 0, {-1, 60, 60, 61, 91}, good_direct},
      {StatusCode::decreasing, SequenceSide::k, 3, good_direct, {0, 60, 60, 61, 60}},
      {StatusCode::exceeds_tokens, SequenceSide::q, 3, {0, 60, 60, 61, 101}, good_direct},
      {StatusCode::exceeds_max_seqlen, SequenceSide::q, 1, {0, 20, 90, 90, 91}, good_direct}};

  for (const bool is_direct : {false, true}) {
    CAPTURE(is_direct);
    Call call(is_direct ? direct : c);
    REQUIRE(call.executor.workspace_spec().writes_dq_directly == is_direct);
    CallArguments arguments = call.arguments();
    arguments.status = StatusBuffer::create();
    Graph graph(call.executor, arguments);
    const OwnedStream stream;
    for (const BadStarts& bad : is_direct ? for_direct : for_chain) {
      for (const bool replayed : {false, true}) {
        set_starts(arguments, bad.q, bad.k);
        call.device.poison_outputs();
        replayed ? graph.launch(stream.get()) : call.executor.enqueue(arguments, stream.get());
        stream.synchronize();
        const CallStatus status = arguments.status.read();
        CHECK(status.code == bad.code);
        CHECK(status.side == bad.side);
        CHECK(status.sequence == bad.sequence);
        CHECK(call.device.violation() == "");
        const Gradients gradients = call.device.download_gradients();
        CHECK(all_nan(gradients.dq));
        CHECK(all_nan(gradients.dk));
        CHECK(all_nan(gradients.dv));

        call.load(call.prepared.source);  // the next good call is right again
        call.device.poison_outputs();
        replayed ? graph.launch(stream.get()) : call.executor.enqueue(arguments, stream.get());
        stream.synchronize();
        CHECK(arguments.status.read().code == StatusCode::ok);
        CHECK(call.failure() == "");
      }
    }
  }
}

TEST_CASE("a logical length beyond the physical one is reported like a bad start") {
  Case c = long_case();
  c.problem.logical_lengths = LogicalLengths::per_sequence;
  c.lengths.q.logical = c.lengths.k.logical = {290, 0, 1, 70};
  Call call(c);
  CallArguments arguments = call.arguments();
  arguments.status = StatusBuffer::create();
  const std::vector<std::int32_t> too_long{290, 0, 2, 70};
  check_hip(
      hipMemcpy(const_cast<std::int32_t*>(arguments.lengths.seqlen_k), too_long.data(), 16, hipMemcpyHostToDevice),
      "hipMemcpy");
  const OwnedStream stream;
  call.device.poison_outputs();
  call.executor.enqueue(arguments, stream.get());
  stream.synchronize();
  const CallStatus status = arguments.status.read();
  CHECK(status.code == StatusCode::bad_logical_length);
  CHECK(status.side == SequenceSide::k);
  CHECK(status.sequence == 2);
  CHECK(all_nan(call.device.download_gradients().dk));
}

TEST_CASE("staging is reused once its call has passed, with either keepalive") {
  for (const Keepalive keepalive : {Keepalive::event, Keepalive::host_function}) {
    ExecutorOptions options;
    options.keepalive = keepalive;
    Call call(long_case(), options);
    detail::StagingPool& pool = call.executor.state()->pool;
    const OwnedStream stream;
    const auto call_once = [&] {
      call.executor.enqueue(call.arguments(), stream.get());
      stream.synchronize();
      // A host function may end a moment after the stream that waits for nothing else says so.
      CHECK(eventually([&] { return (pool.collect(), pool.counters().in_use == 0); }));
    };
    call_once();
    const std::size_t blocks = pool.counters().blocks;
    for (int i = 0; i < 50; ++i) call_once();
    CHECK(pool.counters().blocks == blocks);
    CHECK(call.failure() == "");
  }
}

TEST_CASE("many calls in flight at once each have their own staging and come out right") {
  std::vector<std::unique_ptr<Call>> calls;
  for (std::uint64_t i = 0; i < 4; ++i) {
    calls.push_back(std::make_unique<Call>(group_case({static_cast<std::int32_t>(130 + 40 * i), 60, 9}, 340, i + 1)));
    calls.back()->device.poison_outputs();
  }
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Call>& call : calls) {
    threads.emplace_back([&call] {
      const OwnedStream stream;
      for (int i = 0; i < 25; ++i) call->executor.enqueue(call->arguments(), stream.get());
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Call>& call : calls) CHECK(call->failure() == "");
}

TEST_CASE("the null stream works like any other") {
  Call call(long_case());
  call.device.poison_outputs();
  call.executor.enqueue(call.arguments(), nullptr);
  check_hip(hipStreamSynchronize(nullptr), "hipStreamSynchronize");
  CHECK(call.failure() == "");
}

TEST_CASE("a batch without rows is a call that does nothing") {
  Case c = group_case({}, 0);
  Call call(c);
  CHECK(call.executor.describe_nodes().find("kernel") == std::string::npos);
  const OwnedStream stream;
  call.executor.enqueue(call.arguments(), stream.get());
  Graph graph(call.executor, call.arguments());
  graph.launch(stream.get());
  stream.synchronize();
}

TEST_CASE("a call lets go of the statuses and graphs of the past without waiting for the device") {
  Call call(long_case());
  const OwnedStream stream, busy;
  // In the pool: a block with the last reference to a status, and one with a graph that owns its workspace.
  call.arguments().status = StatusBuffer::create();
  call.executor.enqueue(call.arguments(), stream.get());
  call.arguments().status = {};
  CallArguments without_workspace = call.arguments();
  without_workspace.workspace = nullptr;
  without_workspace.workspace_bytes = 0;
  Graph(call.executor, without_workspace).launch(stream.get());
  stream.synchronize();

  Gate gate(busy.get());
  std::atomic<bool> is_enqueued{false};
  std::thread caller([&] {
    for (int i = 0; i < 3; ++i) call.executor.enqueue(call.arguments(), stream.get());
    is_enqueued = true;
  });
  CHECK(eventually([&] { return is_enqueued.load(); }));
  gate.open();
  caller.join();
  stream.synchronize();
  busy.synchronize();
}

TEST_CASE("one preparation serves several runs of the kernels") {
  for (const MetadataPath path : {MetadataPath::host, MetadataPath::device}) {
    for (const bool is_deterministic : {false, true}) {
      Case c = long_case();
      c.problem.is_deterministic = is_deterministic;
      ExecutorOptions options;
      options.metadata_path = path;
      Call call(c, options);
      const OwnedStream stream;
      call.device.poison_outputs();
      call.executor.prepare_workspace_async(call.arguments(), stream.get());
      for (int layer = 0; layer < 3; ++layer) {
        call.executor.enqueue_kernels(call.arguments(), stream.get());
        stream.synchronize();
        CHECK(call.failure() == "");
      }
    }
  }
}
