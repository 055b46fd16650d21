// Plain HIP programs, right ones and wrong ones: what an exploration reports about them.
#include <hiphost/explore.hpp>

#include <algorithm>
#include <string>

#include "support.hpp"

namespace {

using hiphost::Exploration;
using hiphost::ExplorationReport;

constexpr int kSeeds = 50;
constexpr std::size_t kCount = 16;

void scale(float* data, float factor, int count) {
  for (int i = 0; i < count; ++i) data[i] *= factor;
}

void* declared_scale() {
  return hiphost::kernel(scale, {"scale",
                                 [](const void* const* args, hiphost::RangeSink& sink) {
                                   float* data = *static_cast<float* const*>(args[0]);
                                   const auto bytes = static_cast<std::size_t>(*static_cast<const int*>(args[2])) * 4;
                                   sink.read(data, bytes);
                                   sink.write(data, bytes);
                                 },
                                 true});
}

void launch_scale(float* data, hipStream_t stream) {
  (void)declared_scale();
  CHECK_OK(hiphost::launch(scale, dim3(1), dim3(1), 0, stream, data, 2.0F, static_cast<int>(kCount)));
}

// How many of the seeds report at least one race.
template <class Program>
int racy_seeds(Program&& program, hiphost::Race* example = nullptr) {
  int racy = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Exploration exploration(static_cast<std::uint64_t>(seed));
    program();
    const ExplorationReport report = exploration.finish();
    racy += report.race_count != 0;
    if (example != nullptr && !report.races.empty()) *example = report.races.front();
  }
  return racy;
}

struct TwoStreams {
  test::Stream first, second;
  test::Event event{hipEventDisableTiming};
  test::Buffer<float> data{kCount};
  test::Buffer<float> pinned{kCount, test::Where::kPinned};
};

}  // namespace

TEST_CASE("a copy and a kernel on two streams without an event race in every seed, and both are named") {
  TwoStreams s;
  hiphost::name_transfers(s.pinned.get(), "upload");
  hiphost::Race race;
  CHECK_EQ(racy_seeds(
               [&] {
                 CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
                 launch_scale(s.data, s.second);
               },
               &race),
           kSeeds);
  const std::string text = to_string(race);
  CAPTURE(text);
  CHECK_NE(text.find("upload (memcpy)"), std::string::npos);
  CHECK_NE(text.find("scale (kernel)"), std::string::npos);
  CHECK_EQ(race.first_range.bytes, kCount * 4);
  CHECK((race.first_range.is_write || race.second_range.is_write));
  hiphost::name_transfers(s.pinned.get(), "");
}

TEST_CASE("the same with an event between the streams is clean") {
  TwoStreams s;
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
             CHECK_OK(hipEventRecord(s.event, s.first));
             CHECK_OK(hipStreamWaitEvent(s.second, s.event, 0));
             launch_scale(s.data, s.second);
           }),
           0);
}

TEST_CASE("an event recorded too early orders too little") {
  TwoStreams s;
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipEventRecord(s.event, s.first));
             CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
             CHECK_OK(hipStreamWaitEvent(s.second, s.event, 0));
             launch_scale(s.data, s.second);
           }),
           kSeeds);
}

TEST_CASE("a wait of the host orders, whether for a stream, an event, or by asking") {
  TwoStreams s;
  const auto upload = [&] {
    CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
    CHECK_OK(hipEventRecord(s.event, s.first));
  };
  CHECK_EQ(racy_seeds([&] {
             upload();
             CHECK_OK(hipStreamSynchronize(s.first));
             launch_scale(s.data, s.second);
           }),
           0);
  CHECK_EQ(racy_seeds([&] {
             upload();
             CHECK_OK(hipEventSynchronize(s.event));
             launch_scale(s.data, s.second);
           }),
           0);
  CHECK_EQ(racy_seeds([&] {
             upload();
             while (hipEventQuery(s.event) == hipErrorNotReady) {
             }
             launch_scale(s.data, s.second);
           }),
           0);
  CHECK_EQ(racy_seeds([&] {
             upload();
             while (hipStreamQuery(s.first) == hipErrorNotReady) {
             }
             launch_scale(s.data, s.second);
           }),
           0);
}

TEST_CASE("waiting for another stream does not order") {
  TwoStreams s;
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
             CHECK_OK(hipStreamSynchronize(s.second));
             launch_scale(s.data, s.second);
           }),
           kSeeds);
}

TEST_CASE("the null stream orders blocking streams and leaves the others alone") {
  TwoStreams s;
  const test::Stream blocking(hipStreamDefault);
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, blocking));
             launch_scale(s.data, nullptr);
             launch_scale(s.data, blocking);
           }),
           0);
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.first));
             launch_scale(s.data, nullptr);
           }),
           kSeeds);
}

TEST_CASE("two reads do not race, nor do tasks on disjoint halves") {
  TwoStreams s;
  test::Buffer<float> other(kCount, test::Where::kPinned);
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemcpyAsync(s.pinned, s.data, kCount * 4, hipMemcpyDeviceToHost, s.first));
             CHECK_OK(hipMemcpyAsync(other, s.data, kCount * 4, hipMemcpyDeviceToHost, s.second));
           }),
           0);
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipMemsetAsync(s.data, 0, kCount * 2, s.first));
             CHECK_OK(hipMemsetAsync(s.data + kCount / 2, 0, kCount * 2, s.second));
           }),
           0);
}

TEST_CASE("a missing edge of a graph is found, and a present one suffices, on every replay") {
  TwoStreams s;
  for (const bool has_edge : {false, true}) {
    const test::Graph graph;
    hipGraphNode_t zero = nullptr, copy = nullptr;
    const hipMemsetParams params = test::memset_params(s.data, 0, 4, kCount);
    REQUIRE_OK(hipGraphAddMemsetNode(&zero, graph, nullptr, 0, &params));
    REQUIRE_OK(hipGraphAddMemcpyNode1D(&copy, graph, &zero, has_edge ? 1 : 0, s.pinned, s.data, kCount * 4,
                                       hipMemcpyDeviceToHost));
    const test::Exec exec(graph);
    hiphost::Race race;
    const int racy = racy_seeds(
        [&] {
          for (int replay = 0; replay < 3; ++replay) CHECK_OK(hipGraphLaunch(exec, s.first));
        },
        &race);
    CHECK_EQ(racy, has_edge ? 0 : kSeeds);
    if (!has_edge) CHECK_NE(to_string(race).find("graph"), std::string::npos);
  }
}

TEST_CASE("a launch of a graph beside eager work on its buffers races") {
  TwoStreams s;
  const test::Graph graph(test::capture(s.first, [&] { CHECK_OK(hipMemsetAsync(s.data, 0, kCount * 4, s.first)); }));
  const test::Exec exec(graph);
  CHECK_EQ(racy_seeds([&] {
             CHECK_OK(hipGraphLaunch(exec, s.first));
             launch_scale(s.data, s.second);
           }),
           kSeeds);
}

TEST_CASE("host functions take part through their declarations") {
  TwoStreams s;
  const hipHostFn_t fill = [](void* data) { std::fill_n(static_cast<float*>(data), kCount, 1.0F); };
  hiphost::declare_host_function(
      fill, "fill", [](void* data, hiphost::RangeSink& sink) { sink.write(data, kCount * sizeof(float)); });
  hiphost::Race race;
  CHECK_EQ(racy_seeds(
               [&] {
                 CHECK_OK(hipMemcpyAsync(s.data, s.pinned, kCount * 4, hipMemcpyHostToDevice, s.second));
                 CHECK_OK(hipLaunchHostFunc(s.first, fill, s.pinned.get()));
               },
               &race),
           kSeeds);
  CHECK_NE(to_string(race).find("fill (host)"), std::string::npos);
}

TEST_CASE("a task that uses memory after it was freed is reported") {
  const test::Stream first, second;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Exploration exploration(seed);
    float* data = nullptr;
    REQUIRE_OK(hipMalloc(&data, kCount * 4));
    CHECK_OK(hipMemsetAsync(data, 0, kCount * 4, first));
    const test::Event done(hipEventDisableTiming);
    CHECK_OK(hipEventRecord(done, first));
    CHECK_OK(hipStreamWaitEvent(second, done, 0));
    CHECK_OK(hipFreeAsync(data, first));
    CHECK_OK(hipStreamSynchronize(first));
    launch_scale(data, second);
    const ExplorationReport report = exploration.finish();
    REQUIRE_EQ(report.freed_accesses.size(), 2);
    CHECK_NE(to_string(report.freed_accesses.front()).find("scale"), std::string::npos);
  }
}
