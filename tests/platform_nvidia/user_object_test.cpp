#include <optional>

#include "support.hpp"

using namespace test;

namespace {

hipUserObject_t make_object(std::atomic<int>& destroyed) {
  hipUserObject_t object = nullptr;
  REQUIRE_OK(hipUserObjectCreate(&object, &destroyed, count_run, 1, hipUserObjectNoDestructorSync));
  return object;
}

/// A graph of one host node that owns a user object.
void build(const Graph& graph, std::atomic<int>& runs, std::atomic<int>& destroyed) {
  const hipHostNodeParams host{count_run, &runs};
  hipGraphNode_t node = nullptr;
  REQUIRE_OK(hipGraphAddHostNode(&node, graph, nullptr, 0, &host));
  REQUIRE_OK(hipGraphRetainUserObject(graph, make_object(destroyed), 1, hipGraphUserObjectMove));
}

}  // namespace

TEST_CASE("an object that no graph keeps goes with its last reference") {
  std::atomic<int> destroyed{0};
  const hipUserObject_t object = make_object(destroyed);
  CHECK(destroyed == 0);
  CHECK_OK(hipUserObjectRelease(object, 1));
  CHECK(eventually([&] { return destroyed == 1; }));
}

TEST_CASE("an object that a graph keeps goes with the last of the graph and its executables") {
  const Stream stream;
  std::atomic<int> runs{0}, destroyed{0};
  std::optional<Graph> graph(std::in_place);
  build(*graph, runs, destroyed);
  std::optional<Executable> executable(std::in_place, *graph);
  executable->run(stream);
  SUBCASE("the graph goes first") {
    graph.reset();
    executable->run(stream);
    CHECK(runs == 2);
    CHECK(destroyed == 0);
    executable.reset();
  }
  SUBCASE("the executable goes first") {
    executable.reset();
    Executable(*graph).run(stream);
    CHECK(runs == 2);
    CHECK(destroyed == 0);
    graph.reset();
  }
  CHECK(eventually([&] { return destroyed == 1; }));
  REQUIRE_OK(hipDeviceSynchronize());
  CHECK(destroyed == 1);
}

TEST_CASE("an object kept by a graph that is still captured lives as long as what it becomes") {
  const Stream stream;
  std::atomic<int> runs{0}, destroyed{0};
  REQUIRE_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  hipStreamCaptureStatus status{};
  hipGraph_t capturing = nullptr;
  REQUIRE_OK(hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &capturing));
  REQUIRE_OK(hipGraphRetainUserObject(capturing, make_object(destroyed), 1, hipGraphUserObjectMove));
  REQUIRE_OK(hipLaunchHostFunc(stream, count_run, &runs));
  hipGraph_t captured = nullptr;
  REQUIRE_OK(hipStreamEndCapture(stream, &captured));
  {
    std::optional<Graph> graph(std::in_place, captured);
    const Executable executable(*graph);
    graph.reset();
    executable.run(stream);
    CHECK(runs == 1);
    CHECK(destroyed == 0);
  }
  CHECK(eventually([&] { return destroyed == 1; }));
}

TEST_CASE("a clone keeps the object as well") {
  std::atomic<int> runs{0}, destroyed{0};
  hipGraph_t cloned = nullptr;
  {
    const Graph graph;
    build(graph, runs, destroyed);
    REQUIRE_OK(hipGraphClone(&cloned, graph));
  }
  CHECK(destroyed == 0);
  CHECK_OK(hipGraphDestroy(cloned));
  CHECK(eventually([&] { return destroyed == 1; }));
}
