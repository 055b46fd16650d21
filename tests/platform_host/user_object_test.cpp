#include "support.hpp"

namespace {

hipUserObject_t create(std::atomic<int>& destroyed, unsigned references = 1) {
  hipUserObject_t object = nullptr;
  REQUIRE_OK(hipUserObjectCreate(&object, &destroyed, test::count_call, references, hipUserObjectNoDestructorSync));
  return object;
}

bool dies(const std::atomic<int>& destroyed) {
  return test::eventually([&] { return destroyed.load() == 1; });
}

}  // namespace

TEST_CASE("the destructor runs when the last reference is released") {
  std::atomic<int> destroyed{0};
  const hipUserObject_t object = create(destroyed, 2);
  REQUIRE_OK(hipUserObjectRetain(object, 3));
  REQUIRE_OK(hipUserObjectRelease(object, 4));
  CHECK_EQ(destroyed.load(), 0);
  CHECK_IS(hipUserObjectRelease(object, 2), hipErrorInvalidValue);
  REQUIRE_OK(hipUserObjectRelease(object, 1));
  CHECK(dies(destroyed));
  CHECK_IS(hipUserObjectRelease(object, 1), hipErrorInvalidValue);
  CHECK_IS(hipUserObjectRetain(object, 1), hipErrorInvalidValue);
}

TEST_CASE("releasing the last reference runs the destructor in that very call") {
  struct Data {
    std::thread::id thread;
    int calls = 0;
  } data;
  const auto note = [](void* d) {
    static_cast<Data*>(d)->thread = std::this_thread::get_id();
    ++static_cast<Data*>(d)->calls;
  };
  const test::Graph graph;
  hipUserObject_t object = nullptr;
  SUBCASE("of the application") {
    REQUIRE_OK(hipUserObjectCreate(&object, &data, note, 2, hipUserObjectNoDestructorSync));
    REQUIRE_OK(hipUserObjectRelease(object, 2));
  }
  SUBCASE("of a graph") {
    REQUIRE_OK(hipUserObjectCreate(&object, &data, note, 1, hipUserObjectNoDestructorSync));
    REQUIRE_OK(hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove));
    REQUIRE_OK(hipGraphReleaseUserObject(graph, object, 1));
  }
  CHECK_EQ(data.calls, 1);
  CHECK(data.thread == std::this_thread::get_id());
  CHECK_IS(hipUserObjectRetain(object, 1), hipErrorInvalidValue);
}

TEST_CASE("wrong arguments of user objects are refused") {
  std::atomic<int> destroyed{0};
  hipUserObject_t object = nullptr;
  const unsigned flag = hipUserObjectNoDestructorSync;
  CHECK_IS(hipUserObjectCreate(nullptr, &destroyed, test::count_call, 1, flag), hipErrorInvalidValue);
  CHECK_IS(hipUserObjectCreate(&object, &destroyed, nullptr, 1, flag), hipErrorInvalidValue);
  CHECK_IS(hipUserObjectCreate(&object, &destroyed, test::count_call, 0, flag), hipErrorInvalidValue);
  CHECK_IS(hipUserObjectCreate(&object, &destroyed, test::count_call, 1, 0), hipErrorInvalidValue);
  object = create(destroyed);
  const test::Graph graph;
  CHECK_IS(hipUserObjectRelease(object, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphRetainUserObject(graph, object, 0, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphRetainUserObject(graph, object, 1, 7), hipErrorInvalidValue);
  CHECK_IS(hipGraphRetainUserObject(nullptr, object, 1, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphRetainUserObject(graph, nullptr, 1, 0), hipErrorInvalidValue);
  CHECK_IS(hipGraphReleaseUserObject(graph, object, 1), hipErrorInvalidValue);
  REQUIRE_OK(hipUserObjectRelease(object, 1));
  CHECK(dies(destroyed));
}

TEST_CASE("a graph keeps what it retains until it is destroyed or releases it") {
  std::atomic<int> first{0}, second{0};
  const hipUserObject_t moved = create(first), shared = create(second);
  auto graph = std::make_unique<test::Graph>();
  REQUIRE_OK(hipGraphRetainUserObject(*graph, moved, 1, hipGraphUserObjectMove));
  CHECK_IS(hipUserObjectRelease(moved, 1), hipErrorInvalidValue);
  REQUIRE_OK(hipGraphRetainUserObject(*graph, shared, 2, 0));
  REQUIRE_OK(hipGraphReleaseUserObject(*graph, shared, 2));
  REQUIRE_OK(hipUserObjectRelease(shared, 1));
  CHECK(dies(second));
  CHECK_EQ(first.load(), 0);
  graph.reset();
  CHECK(dies(first));
}

TEST_CASE("executables keep the objects of child graphs too") {
  std::atomic<int> destroyed{0};
  const hipUserObject_t object = create(destroyed);
  auto outer = std::make_unique<test::Graph>();
  {
    const test::Graph inner;
    REQUIRE_OK(hipGraphRetainUserObject(inner, object, 1, hipGraphUserObjectMove));
    hipGraphNode_t node = nullptr;
    REQUIRE_OK(hipGraphAddChildGraphNode(&node, *outer, nullptr, 0, inner));
  }
  auto exec = std::make_unique<test::Exec>(*outer);
  outer.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_EQ(destroyed.load(), 0);
  exec.reset();
  CHECK(dies(destroyed));
}

TEST_CASE("an update takes over the objects of the graph that it takes parameters from") {
  std::atomic<int> old_object{0}, new_object{0};
  const test::Stream stream;
  const auto make = [&](std::atomic<int>& destroyed) {
    const hipGraph_t graph = test::capture(stream, [&] {
      REQUIRE_OK(hipLaunchHostFunc(
          stream, [](void*) {}, nullptr));
    });
    REQUIRE_OK(hipGraphRetainUserObject(graph, create(destroyed), 1, hipGraphUserObjectMove));
    return std::make_unique<test::Graph>(graph);
  };
  auto before = make(old_object), after = make(new_object);
  auto exec = std::make_unique<test::Exec>(*before);
  hipGraphNode_t error_node = nullptr;
  hipGraphExecUpdateResult result{};
  REQUIRE_OK(hipGraphExecUpdate(*exec, *after, &error_node, &result));
  before.reset();
  after.reset();
  CHECK(dies(old_object));
  CHECK_EQ(new_object.load(), 0);
  exec.reset();
  CHECK(dies(new_object));
}

TEST_CASE("a destructor must not call the runtime") {
  struct Data {
    std::atomic<int> done{0};
    hipError_t status = hipSuccess;
  } data;
  hipUserObject_t object = nullptr;
  REQUIRE_OK(hipUserObjectCreate(
      &object, &data,
      [](void* d) {
        void* memory = nullptr;
        static_cast<Data*>(d)->status = hipHostMalloc(&memory, 8, 0);
        static_cast<Data*>(d)->done.store(1);
      },
      1, hipUserObjectNoDestructorSync));
  REQUIRE_OK(hipUserObjectRelease(object, 1));
  REQUIRE(test::eventually([&] { return data.done.load() == 1; }));
  CHECK_IS(data.status, hipErrorNotSupported);
}
