// Eager calls that are launched as graphs: the same results as kernel by kernel, with calls in flight.
#include "eager_graphs.hpp"

#include <array>
#include <optional>

#include "call_fixture.hpp"
#include "hip_compat.hpp"

using namespace fmhax;
using namespace fmhax::test;

namespace {

/// Eager graphs while it lives, whatever the runtime: platform/host keeps CUDA's promises.
struct UseEagerGraphs {
  UseEagerGraphs() { detail::use_eager_graphs(true); }
  ~UseEagerGraphs() { detail::use_eager_graphs(kByDefault); }
  static constexpr bool kByDefault = detail::kChangesLeaveLaunchesAlone && detail::kOrdersLaunchesOfAnExecutable;
};

ExecutorOptions on_device() {
  ExecutorOptions options;
  options.metadata_path = MetadataPath::device;
  return options;
}

}  // namespace

TEST_CASE("eager graphs: calls in flight keep their own arguments") {
  const UseEagerGraphs use;
  Call call(long_case(1), on_device());
  Call other(long_case(2), on_device());
  const OwnedStream stream;
  for (int round = 0; round < 2; ++round) {
    call.device.poison_outputs();
    other.device.poison_outputs();
    Gate gate(stream.get());
    for (int i = 0; i < 3; ++i) {
      call.executor.enqueue(call.arguments(), stream.get());
      call.executor.enqueue(other.arguments(), stream.get());
    }
    gate.open();
    stream.synchronize();
    CHECK(call.failure() == "");
    CHECK(other.failure() == "");
  }
}

TEST_CASE("eager graphs: a call's status follows its lengths") {
  const UseEagerGraphs use;
  Call call(long_case(), on_device());
  const OwnedStream stream;
  call.arguments().status = StatusBuffer::create();
  for (const bool is_right : {true, false, true}) {
    const std::vector<std::int32_t> starts =
        is_right ? call.prepared.source.lengths.q.seqstart : std::vector<std::int32_t>{0, 300, 299, 301, 378};
    set_starts(call.arguments(), starts, starts);
    call.executor.enqueue(call.arguments(), stream.get());
    stream.synchronize();
    CHECK((call.arguments().status.read().code == StatusCode::ok) == is_right);
    if (is_right) CHECK(call.failure() == "");
  }
}

TEST_CASE("eager graphs: other parts of a call, and more streams than there is room for, go without") {
  const UseEagerGraphs use;
  Call call(long_case(), on_device());
  std::array<OwnedStream, 12> streams;
  for (const OwnedStream& stream : streams) {
    call.device.poison_outputs();
    call.executor.enqueue(call.arguments(), stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
    call.device.poison_outputs();
    call.executor.prepare_workspace_async(call.arguments(), stream.get());
    call.executor.enqueue_kernels(call.arguments(), stream.get());
    call.executor.enqueue_kernels(call.arguments(), stream.get());
    stream.synchronize();
    CHECK(call.failure() == "");
  }
}

TEST_CASE("eager graphs: an executor and its stream may go while calls are in flight") {
  const UseEagerGraphs use;
  Call call(long_case(), on_device());
  std::optional<Executor> executor(std::in_place, call.executor.problem(), on_device());
  const OwnedStream stream;
  call.device.poison_outputs();
  Gate gate(stream.get());
  executor->enqueue(call.arguments(), stream.get());
  executor.reset();
  gate.open();
  stream.synchronize();
  CHECK(call.failure() == "");
}

TEST_CASE("eager graphs: threads that share an executor, each on a stream of its own") {
  const UseEagerGraphs use;
  Call first(long_case(1), on_device());
  Call second(long_case(2), on_device());
  const Executor executor = first.executor;
  const auto enqueue = [&executor](Call& call) {
    const OwnedStream stream;
    for (int i = 0; i < 20; ++i) executor.enqueue(call.arguments(), stream.get());
    stream.synchronize();
  };
  first.device.poison_outputs();
  second.device.poison_outputs();
  std::thread other([&] { enqueue(second); });
  enqueue(first);
  other.join();
  CHECK(first.failure() == "");
  CHECK(second.failure() == "");
}
