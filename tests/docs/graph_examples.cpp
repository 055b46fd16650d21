// The examples of docs/graphs.md, which quotes them as they are here, and the tests that run them.
#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "call_fixture.hpp"
#include "fmhax/fmhax.hpp"

namespace {

/// Throws unless a HIP call was successful.
void check(hipError_t error) {
  if (error != hipSuccess) throw std::runtime_error(hipGetErrorName(error));
}

struct Step {
  const fmhax::Executor& attention;
  std::vector<fmhax::CallArguments> layers;  // one workspace for all, since they follow one another
  std::int32_t* starts;                      // device: what lengths.seqstart_q and seqstart_k of the layers are
  const std::int32_t* next_starts;           // pinned: written by the host, or by a host function
  std::size_t start_bytes;
};

void enqueue_step(const Step& step, hipStream_t stream) {
  check(hipMemcpyAsync(step.starts, step.next_starts, step.start_bytes, hipMemcpyHostToDevice, stream));
  for (const fmhax::CallArguments& layer : step.layers) step.attention.enqueue(layer, stream);
}

hipGraphExec_t capture_step(const Step& step, hipStream_t stream) {
  hipGraph_t graph = nullptr;
  check(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  try {
    enqueue_step(step, stream);
  } catch (...) {
    if (hipStreamEndCapture(stream, &graph) == hipSuccess) (void)hipGraphDestroy(graph);
    throw;
  }
  check(hipStreamEndCapture(stream, &graph));
  hipGraphExec_t executable = nullptr;
  const hipError_t error = hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0);
  (void)hipGraphDestroy(graph);  // the executable holds what it needs
  check(error);
  return executable;
}

struct Branch {
  const fmhax::Executor& attention;
  fmhax::CallArguments call;  // a workspace, d and outputs of its own
};

void enqueue_side_by_side(const Branch& text, const Branch& image, hipStream_t stream, hipStream_t side,
                          hipEvent_t fork, hipEvent_t join) {
  check(hipEventRecord(fork, stream));
  check(hipStreamWaitEvent(side, fork, 0));
  text.attention.enqueue(text.call, stream);
  image.attention.enqueue(image.call, side);
  check(hipEventRecord(join, side));
  check(hipStreamWaitEvent(stream, join, 0));
}

void run_as_graph(const fmhax::Executor& attention, const fmhax::CallArguments& first,
                  const fmhax::CallArguments& second, hipStream_t stream) {
  fmhax::Graph backward(attention, first);
  backward.launch(stream);
  backward.update(second);  // the launch before keeps the arguments that it had
  backward.launch(stream);
}  // gone while both launches may still run

hipGraphNode_t add_backward(hipGraph_t step, hipGraphNode_t after, const fmhax::Graph& backward) {
  hipGraphNode_t node = nullptr;
  check(hipGraphAddChildGraphNode(&node, step, &after, 1, backward.native()));
  return node;
}

void backward_of_all(fmhax::GraphCache& graphs, const fmhax::Executor& attention,
                     const std::vector<fmhax::CallArguments>& layers, hipStream_t stream) {
  for (const fmhax::CallArguments& layer : layers) graphs.launch(attention, layer, stream);
}

std::string what_was_wrong(const fmhax::CallArguments& layer, hipStream_t stream) {
  check(hipStreamSynchronize(stream));
  const fmhax::CallStatus status = layer.status.read();
  return status.code == fmhax::StatusCode::ok ? "" : to_string(status);
}

using namespace fmhax::test;

/// Two layers of one problem, as a step has them: shared sequence starts, workspace and d.
struct TwoLayers {
  TwoLayers() {
    check(hipHostMalloc(reinterpret_cast<void**>(&next_starts), start_bytes(), hipHostMallocDefault));
    auto& layer = second.arguments();
    layer.lengths = first.arguments().lengths;
    layer.lengths.seqstart_k = first.arguments().lengths.seqstart_k = layer.lengths.seqstart_q;
    layer.workspace = first.arguments().workspace;
    layer.d = first.arguments().d;
    for (Call* call : {&first, &second}) call->arguments().status = fmhax::StatusBuffer::create();
  }
  ~TwoLayers() { (void)hipHostFree(next_starts); }
  TwoLayers(const TwoLayers&) = delete;
  TwoLayers& operator=(const TwoLayers&) = delete;

  std::size_t start_bytes() const { return first.prepared.source.lengths.q.seqstart.size() * sizeof(std::int32_t); }
  Step step() {
    auto* starts = const_cast<std::int32_t*>(first.arguments().lengths.seqstart_q);
    return {first.executor, {first.arguments(), second.arguments()}, starts, next_starts, start_bytes()};
  }
  /// Other lengths and inputs; only the step itself brings the starts to the device.
  void load(const std::vector<std::int32_t>& lengths, std::uint64_t seed) {
    first.load(group_case(lengths, kCapacity, seed));
    second.load(group_case(lengths, kCapacity, seed + 1));
    const std::vector<std::int32_t>& starts = first.prepared.source.lengths.q.seqstart;
    std::copy(starts.begin(), starts.end(), next_starts);
    check(hipMemset(step().starts, 0xFF, start_bytes()));
    poison();
  }
  void poison() {
    first.device.poison_outputs();
    second.device.poison_outputs();
  }

  Call first{long_case(1)};
  Call second{long_case(2)};
  std::int32_t* next_starts = nullptr;
};

}  // namespace

TEST_CASE("example: a step gives the same right gradients enqueued and captured") {
  TwoLayers layers;
  const OwnedStream stream;
  const hipGraphExec_t captured = capture_step(layers.step(), stream.get());
  for (const bool replays : {true, false, true}) {
    layers.load(replays ? std::vector<std::int32_t>{20, 250, 0, 130} : std::vector<std::int32_t>{100, 0, 299, 1}, 7);
    if (replays) {
      check(hipGraphLaunch(captured, stream.get()));
    } else {
      enqueue_step(layers.step(), stream.get());
    }
    CHECK(what_was_wrong(layers.second.arguments(), stream.get()) == "");
    CHECK(layers.first.failure() == "");
    CHECK(layers.second.failure() == "");
  }
  layers.next_starts[4] = 401;
  check(hipGraphLaunch(captured, stream.get()));
  CHECK(what_was_wrong(layers.first.arguments(), stream.get()).find("401 > 400") != std::string::npos);
  check(hipGraphExecDestroy(captured));
}

TEST_CASE("example: a capture that throws is ended, and the stream captures again") {
  TwoLayers layers;
  const OwnedStream stream;
  Step wrong = layers.step();
  wrong.layers.back().dk.data = nullptr;
  CHECK_THROWS_AS(capture_step(wrong, stream.get()), fmhax::Error);
  check(hipGraphExecDestroy(capture_step(layers.step(), stream.get())));
}

TEST_CASE("example: two branches side by side") {
  Call text(long_case(3));
  Call image(group_case({150, 140}, 300, 4));
  const OwnedStream stream, side;
  hipEvent_t fork = nullptr, join = nullptr;
  check(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
  check(hipEventCreateWithFlags(&join, hipEventDisableTiming));
  const auto enqueue = [&](hipStream_t trunk) {
    enqueue_side_by_side({text.executor, text.arguments()}, {image.executor, image.arguments()}, trunk, side.get(),
                         fork, join);
  };
  const CapturedGraph captured(enqueue);
  for (const bool replays : {false, true}) {
    text.device.poison_outputs();
    image.device.poison_outputs();
    replays ? captured.launch(stream.get()) : enqueue(stream.get());
    stream.synchronize();
    CHECK(text.failure() == "");
    CHECK(image.failure() == "");
  }
  check(hipEventDestroy(fork));
  check(hipEventDestroy(join));
}

TEST_CASE("example: a Graph, a Graph in a graph, and a GraphCache") {
  Call first(long_case(1));
  Call second(long_case(2));
  const OwnedStream stream;
  const auto poison = [&] {
    first.device.poison_outputs();
    second.device.poison_outputs();
  };
  const auto check_both = [&] {
    stream.synchronize();
    CHECK(first.failure() == "");
    CHECK(second.failure() == "");
  };
  poison();
  run_as_graph(first.executor, first.arguments(), second.arguments(), stream.get());
  check_both();

  const fmhax::Graph one(first.executor, first.arguments());
  const fmhax::Graph other(first.executor, second.arguments());
  hipGraph_t step = nullptr;
  hipGraphNode_t begin = nullptr;
  check(hipGraphCreate(&step, 0));
  check(hipGraphAddEmptyNode(&begin, step, nullptr, 0));
  add_backward(step, add_backward(step, begin, one), other);
  hipGraphExec_t executable = nullptr;
  check(hipGraphInstantiate(&executable, step, nullptr, nullptr, 0));
  poison();
  check(hipGraphLaunch(executable, stream.get()));
  check_both();
  check(hipGraphExecDestroy(executable));
  check(hipGraphDestroy(step));

  fmhax::GraphCache graphs(2);
  for (int round = 0; round < 2; ++round) {
    poison();
    backward_of_all(graphs, first.executor, {first.arguments(), second.arguments()}, stream.get());
    check_both();
  }
  CHECK(graphs.counters().hits == 2);
}
