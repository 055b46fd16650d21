#include "explore_scenarios.hpp"

#include <array>
#include <functional>

#include "fmhax/graph.hpp"
#include "fmhax/graph_cache.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;

std::size_t any_variant(const ExploredCall& call, std::mt19937& random) { return random() % call.variants(); }

class Event {
 public:
  Event() { check_hip(hipEventCreateWithFlags(&event_, hipEventDisableTiming), "hipEventCreateWithFlags"); }
  ~Event() { (void)hipEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// What is enqueued on `to` from now on comes after what is on `from` now.
  void order(hipStream_t from, hipStream_t to) const {
    check_hip(hipEventRecord(event_, from), "hipEventRecord");
    check_hip(hipStreamWaitEvent(to, event_, 0), "hipStreamWaitEvent");
  }

 private:
  hipEvent_t event_ = nullptr;
};

/// A capture on `stream`, instantiated; it is ended also when `record` throws.
class Captured {
 public:
  Captured(hipStream_t stream, const std::function<void()>& record) {
    check_hip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
    hipGraph_t graph = nullptr;
    try {
      record();
    } catch (...) {
      (void)hipStreamEndCapture(stream, &graph);
      if (graph != nullptr) (void)hipGraphDestroy(graph);
      hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
      check_hip(hipStreamIsCapturing(stream, &status), "hipStreamIsCapturing");
      if (status != hipStreamCaptureStatusNone) throw std::logic_error("the stream captures after the capture's end");
      throw;
    }
    check_hip(hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
    const hipError_t error = hipGraphInstantiate(&executable_, graph, nullptr, nullptr, 0);
    (void)hipGraphDestroy(graph);
    check_hip(error, "hipGraphInstantiate");
  }
  ~Captured() { (void)hipGraphExecDestroy(executable_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  void launch(hipStream_t stream) const { check_hip(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }

 private:
  hipGraphExec_t executable_ = nullptr;
};

/// One call from lengths to results.
void enqueue_eagerly(ExploredWorld& world, ExploredCall& call, std::size_t variant, hipStream_t stream) {
  call.upload(variant, stream);
  world.in_library([&] { call.executor().enqueue(call.arguments(), stream); });
  call.download(variant, stream);
}

void replay(ExploredWorld& world, ExploredCall& call, Graph& graph, std::size_t variant, hipStream_t stream) {
  call.upload(variant, stream);
  world.in_library([&] { graph.launch(stream); });
  call.download(variant, stream);
}

class EagerStreams final : public Scenario {
 public:
  const char* name() const override { return "eager"; }
  const char* description() const override { return "eager calls of different shapes on four streams"; }
  void run(ExploredWorld& world, std::mt19937& random) override {
    const std::array<ExploredCall*, 4> calls = {world.group.get(), world.logical.get(), world.batch.get(),
                                                world.wide.get()};
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        enqueue_eagerly(world, *calls[i], any_variant(*calls[i], random), world.streams[i].get());
      }
    }
  }
};

class Replays final : public Scenario {
 public:
  explicit Replays(ExploredWorld& world)
      : group_(world.group->executor(), world.group->arguments()),
        logical_(world.logical->executor(), world.logical->arguments()),
        batch_(world.batch->executor(), world.batch->arguments()) {}
  const char* name() const override { return "replays"; }
  const char* description() const override { return "replays with other lengths beside eager calls of other shapes"; }
  void run(ExploredWorld& world, std::mt19937& random) override {
    const Event moved;
    for (int round = 0; round < 2; ++round) {
      replay(world, *world.group, group_, any_variant(*world.group, random), world.streams[0].get());
      enqueue_eagerly(world, *world.wide, any_variant(*world.wide, random), world.streams[3].get());
      replay(world, *world.logical, logical_, any_variant(*world.logical, random), world.streams[1].get());
      replay(world, *world.batch, batch_, 0, world.streams[2].get());
    }
    // The same graph on another stream, whose uploads come after the first one's downloads.
    moved.order(world.streams[0].get(), world.streams[2].get());
    replay(world, *world.group, group_, any_variant(*world.group, random), world.streams[2].get());
  }

 private:
  Graph group_, logical_, batch_;
};

class TwoCaptures final : public Scenario {
 public:
  const char* name() const override { return "captures"; }
  const char* description() const override {
    return "two captures, one of them with two calls on forked streams, replayed beside eager calls";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    hipStream_t first = world.streams[0].get();
    hipStream_t second = world.streams[1].get();
    const Event fork, join;
    const Captured two_calls(first, [&] {
      fork.order(first, second);
      world.in_library([&] { world.group->executor().enqueue(world.group->arguments(), first); });
      world.in_library([&] { world.logical->executor().enqueue(world.logical->arguments(), second); });
      join.order(second, first);
    });
    const Captured one_call(
        second, [&] { world.in_library([&] { world.batch->executor().enqueue(world.batch->arguments(), second); }); });
    for (int round = 0; round < 2; ++round) {
      const std::size_t group = any_variant(*world.group, random);
      const std::size_t logical = any_variant(*world.logical, random);
      world.group->upload(group, first);
      world.logical->upload(logical, first);
      two_calls.launch(first);
      world.group->download(group, first);
      world.logical->download(logical, first);
      world.batch->upload(0, second);
      one_call.launch(second);
      world.batch->download(0, second);
      enqueue_eagerly(world, *world.wide, any_variant(*world.wide, random), world.streams[2].get());
    }
  }
};

class Destruction final : public Scenario {
 public:
  const char* name() const override { return "destruction"; }
  const char* description() const override {
    return "graphs, executables and executors destroyed while their work is in flight";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    hipStream_t first = world.streams[0].get();
    hipStream_t second = world.streams[1].get();
    const std::size_t group = any_variant(*world.group, random);
    const std::size_t logical = any_variant(*world.logical, random);
    world.in_library([&] {
      ExecutorOptions options;
      options.kernel = world.group->executor().kernel_choice().entry().name;
      auto executor = std::make_unique<Executor>(world.group->executor().problem(), options);
      Graph graph(*executor, world.group->arguments());
      executor.reset();
      world.group->upload(group, first);
      graph.launch(first);
    });
    world.group->download(group, first);
    {
      const Captured captured(second, [&] {
        world.in_library([&] { world.logical->executor().enqueue(world.logical->arguments(), second); });
      });
      world.logical->upload(logical, second);
      captured.launch(second);
    }
    world.logical->download(logical, second);
    // Calls that would like to have the staging of what was just destroyed.
    for (int round = 0; round < 2; ++round) {
      enqueue_eagerly(world, *world.batch, 0, world.streams[2].get());
      enqueue_eagerly(world, *world.group_host_function, any_variant(*world.group_host_function, random),
                      world.streams[3].get());
      enqueue_eagerly(world, *world.wide, any_variant(*world.wide, random), world.streams[2].get());
    }
    world.in_library([&] {
      const Executor copy(world.wide->executor());
      world.wide->upload(1, world.streams[2].get());
      copy.enqueue(world.wide->arguments(), world.streams[2].get());
    });
    world.wide->download(1, world.streams[2].get());
  }
};

class PoolReuse final : public Scenario {
 public:
  const char* name() const override { return "pool"; }
  const char* description() const override {
    return "staging reused by calls with other lengths, given back by events and by host functions";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    for (int round = 0; round < 4; ++round) {
      enqueue_eagerly(world, *world.group, any_variant(*world.group, random), world.streams[0].get());
      enqueue_eagerly(world, *world.group_host_function, any_variant(*world.group_host_function, random),
                      world.streams[1].get());
      if (random() % 2 == 0) world.streams[random() % 2].synchronize();
    }
  }
};

class Split final : public Scenario {
 public:
  const char* name() const override { return "split"; }
  const char* description() const override {
    return "preparation and kernels apart: on two streams with an event, and from lengths in host memory";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    hipStream_t first = world.streams[0].get();
    hipStream_t second = world.streams[1].get();
    const Event prepared, finished;
    for (int round = 0; round < 3; ++round) {
      const std::size_t group = any_variant(*world.group, random);
      world.group->upload(group, first);
      world.in_library([&] { world.group->executor().prepare_workspace_async(world.group->arguments(), first); });
      prepared.order(first, second);
      world.in_library([&] { world.group->executor().enqueue_kernels(world.group->arguments(), second); });
      world.group->download(group, second);
      finished.order(second, first);

      hipStream_t third = world.streams[2].get();
      ExploredCall& call = *world.logical;
      const std::size_t logical = any_variant(call, random);
      call.upload(logical, third);
      world.in_library([&] {
        call.executor().prepare_workspace(call.arguments(), call.host_lengths(logical), third);
        call.executor().enqueue_kernels(call.arguments(), third);
      });
      call.download(logical, third);
    }
  }
};

class Updates final : public Scenario {
 public:
  const char* name() const override { return "update"; }
  const char* description() const override { return "one graph retargeted between two calls while its replays run"; }
  void run(ExploredWorld& world, std::mt19937& random) override {
    // Two calls of one problem, each with tensors, lengths, workspace and status of its own.
    const std::array<ExploredCall*, 2> calls = {world.group.get(), world.group_host_function.get()};
    std::unique_ptr<Graph> graph;
    world.in_library([&] { graph = std::make_unique<Graph>(calls[0]->executor(), calls[0]->arguments()); });
    for (std::size_t round = 0; round < 5; ++round) {
      ExploredCall& call = *calls[round % 2];
      hipStream_t stream = world.streams[round % 2].get();
      if (round > 0) world.in_library([&] { graph->update(call.arguments()); });
      replay(world, call, *graph, any_variant(call, random), stream);
      enqueue_eagerly(world, *world.wide, any_variant(*world.wide, random), world.streams[2].get());
      if (random() % 2 == 0) replay(world, call, *graph, any_variant(call, random), stream);
    }
  }
};

class Cached final : public Scenario {
 public:
  const char* name() const override { return "cache"; }
  const char* description() const override {
    return "a graph cache that is too small: graphs retargeted and dropped while their replays run";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    // Two of one plan, and one that drives either out.
    const std::array<ExploredCall*, 3> calls = {world.group.get(), world.group_on_device.get(), world.logical.get()};
    GraphCache cache(2);
    for (int round = 0; round < 6; ++round) {
      const std::size_t i = random() % calls.size();
      ExploredCall& call = *calls[i];
      hipStream_t stream = world.streams[i].get();
      const std::size_t variant = any_variant(call, random);
      call.upload(variant, stream);
      world.in_library([&] {
        cache.launch(
            world.group->executor().problem() == call.executor().problem() ? world.group->executor() : call.executor(),
            call.arguments(), stream);
      });
      call.download(variant, stream);
      enqueue_eagerly(world, *world.wide, any_variant(*world.wide, random), world.streams[3].get());
    }
  }
};

class DirectDq final : public Scenario {
 public:
  explicit DirectDq(ExploredWorld& world) : graph_(world.direct->executor(), world.direct->arguments()) {}
  const char* name() const override { return "direct"; }
  const char* description() const override { return "the kernel without workspace, eagerly and as a graph, in turn"; }
  void run(ExploredWorld& world, std::mt19937& random) override {
    const Event order;
    for (int round = 0; round < 3; ++round) {
      replay(world, *world.direct, graph_, any_variant(*world.direct, random), world.streams[0].get());
      order.order(world.streams[0].get(), world.streams[1].get());
      enqueue_eagerly(world, *world.direct, any_variant(*world.direct, random), world.streams[1].get());
      order.order(world.streams[1].get(), world.streams[0].get());
      enqueue_eagerly(world, *world.batch, 0, world.streams[2].get());
    }
  }

 private:
  Graph graph_;
};

class DeviceMetadata final : public Scenario {
 public:
  explicit DeviceMetadata(ExploredWorld& world)
      : graph_(world.group_on_device->executor(), world.group_on_device->arguments()) {}
  const char* name() const override { return "metadata"; }
  const char* description() const override {
    return "metadata packed by a kernel: eagerly, replayed, captured and prepared apart, beside calls with staging";
  }
  void run(ExploredWorld& world, std::mt19937& random) override {
    ExploredCall& call = *world.group_on_device;
    hipStream_t first = world.streams[0].get();
    hipStream_t second = world.streams[1].get();
    const Event moved;
    const Captured captured(second,
                            [&] { world.in_library([&] { call.executor().enqueue(call.arguments(), second); }); });
    for (int round = 0; round < 2; ++round) {
      replay(world, call, graph_, any_variant(call, random), first);
      enqueue_eagerly(world, *world.group, any_variant(*world.group, random), world.streams[2].get());
      enqueue_eagerly(world, call, any_variant(call, random), first);
      moved.order(first, second);
      const std::size_t variant = any_variant(call, random);
      call.upload(variant, second);
      captured.launch(second);
      call.download(variant, second);
      const std::size_t apart = any_variant(call, random);
      call.upload(apart, second);
      world.in_library([&] {
        call.executor().prepare_workspace_async(call.arguments(), second);
        call.executor().enqueue_kernels(call.arguments(), second);
      });
      call.download(apart, second);
      moved.order(second, first);
    }
  }

 private:
  Graph graph_;
};

class Allocators final : public Scenario {
 public:
  const char* name() const override { return "allocators"; }
  const char* description() const override { return "workspace and pinned memory from the caller's allocators"; }
  void run(ExploredWorld& world, std::mt19937& random) override {
    ExploredCall& call = *world.own_allocators;
    hipStream_t stream = world.streams[0].get();
    world.allocators.stream = stream;
    CallArguments arguments = call.arguments();
    arguments.workspace = nullptr;
    arguments.workspace_bytes = 0;
    for (int round = 0; round < 2; ++round) {
      const std::size_t variant = any_variant(call, random);
      call.upload(variant, stream);
      world.in_library([&] { call.executor().enqueue(arguments, stream); });
      call.download(variant, stream);
    }
    const Captured captured(stream, [&] { world.in_library([&] { call.executor().enqueue(arguments, stream); }); });
    std::unique_ptr<Graph> graph;
    world.in_library([&] { graph = std::make_unique<Graph>(call.executor(), arguments); });
    for (int round = 0; round < 2; ++round) {
      const std::size_t variant = any_variant(call, random);
      call.upload(variant, stream);
      captured.launch(stream);
      call.download(variant, stream);
      replay(world, call, *graph, any_variant(call, random), stream);
      enqueue_eagerly(world, *world.group, any_variant(*world.group, random), world.streams[1].get());
    }
  }
};

}  // namespace

std::vector<std::unique_ptr<Scenario>> make_scenarios(ExploredWorld& world) {
  std::vector<std::unique_ptr<Scenario>> all;
  all.push_back(std::make_unique<EagerStreams>());
  all.push_back(std::make_unique<Replays>(world));
  all.push_back(std::make_unique<TwoCaptures>());
  all.push_back(std::make_unique<Destruction>());
  all.push_back(std::make_unique<PoolReuse>());
  all.push_back(std::make_unique<Split>());
  all.push_back(std::make_unique<DirectDq>(world));
  all.push_back(std::make_unique<Updates>());
  all.push_back(std::make_unique<Cached>());
  all.push_back(std::make_unique<DeviceMetadata>(world));
  all.push_back(std::make_unique<Allocators>());
  return all;
}

}  // namespace fmhax::tool
