// Every HIP call and every allocation of the library's fails once in a whole use of the interface: each time the
// function that made it says so, and the next use is none the worse.
#include <hiphost/fault.hpp>
#include <hiphost/observe.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include "attention.h"
#include "fmhax/fmhax.h"

namespace {

thread_local std::int64_t allocations_until_failure = -1;  // -1: none fails
thread_local int runtime_depth = 0;

/// The runtime's own allocations are none of the library's.
class RuntimeWatch : public hiphost::ApiObserver {
 public:
  void entered(const char*) noexcept override { ++runtime_depth; }
  void left(const char*, hipError_t) noexcept override { --runtime_depth; }
};

/// The functions of the HIP API that this thread calls.
class CalledFunctions : public hiphost::ApiObserver {
 public:
  void entered(const char* function) noexcept override {
    if (std::this_thread::get_id() == thread_) names_.emplace(function);
  }
  void left(const char*, hipError_t) noexcept override {}
  std::set<std::string>& names() noexcept { return names_; }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::set<std::string> names_;
};

/// HIP's headers rename functions whose struct has changed.
std::string name_in_source(std::string function) {
  if (function.ends_with("R0600")) function.resize(function.size() - 5);
  return function;
}

void* allocate(std::size_t size) {
  if (runtime_depth == 0 && allocations_until_failure >= 0 && --allocations_until_failure < 0) throw std::bad_alloc();
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

template <auto kDestroy>
struct Destroyer {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    // What is destroyed has no way to say that something failed.
    const std::int64_t saved = std::exchange(allocations_until_failure, -1);
    kDestroy(handle);
    allocations_until_failure = saved;
  }
};

struct Handles {
  std::unique_ptr<fmhax_executor, Destroyer<fmhax_executor_destroy>> executor;
  std::unique_ptr<fmhax_status_buffer, Destroyer<fmhax_status_buffer_destroy>> status;
  std::unique_ptr<fmhax_graph, Destroyer<fmhax_graph_destroy>> graph;
  std::unique_ptr<fmhax_graph_cache, Destroyer<fmhax_graph_cache_destroy>> cache;
};

/// Creates, runs and destroys one of each; gives the code of the first function that fails.
fmhax_error_code use_everything(const attention& a, void* workspace, std::int64_t workspace_bytes) {
  Handles handles;
  const auto create = [](auto& handle, auto&& make) {
    typename std::remove_reference_t<decltype(handle)>::pointer made = nullptr;
    const fmhax_error_code code = make(&made);
    handle.reset(made);
    const bool is_consistent = (code == FMHAX_OK) == (made != nullptr);
    return is_consistent ? code : FMHAX_ERROR_INTERNAL;  // no checks here, where doctest's own memory would be counted
  };
  fmhax_call_arguments arguments = a.arguments;
  arguments.workspace = workspace;
  arguments.workspace_bytes = workspace_bytes;

  fmhax_error_code code =
      create(handles.executor, [&](fmhax_executor** made) { return fmhax_executor_create(&a.problem, nullptr, made); });
  if (code != FMHAX_OK) return code;
  code = create(handles.status, fmhax_status_buffer_create);
  if (code != FMHAX_OK) return code;
  arguments.status = handles.status.get();
  code = fmhax_executor_enqueue(handles.executor.get(), &arguments, nullptr);
  if (code != FMHAX_OK) return code;
  std::size_t length = 0;
  code = fmhax_executor_describe(handles.executor.get(), nullptr, 0, &length);
  if (code != FMHAX_OK) return code;
  code = create(handles.graph,
                [&](fmhax_graph** made) { return fmhax_graph_create(handles.executor.get(), &arguments, made); });
  if (code != FMHAX_OK) return code;
  code = fmhax_graph_launch(handles.graph.get(), nullptr);
  if (code != FMHAX_OK) return code;
  arguments.scale = 0.5F;
  code = fmhax_graph_update(handles.graph.get(), &arguments);
  if (code != FMHAX_OK) return code;
  code = create(handles.cache, [](fmhax_graph_cache** made) { return fmhax_graph_cache_create(1, made); });
  if (code != FMHAX_OK) return code;
  return fmhax_graph_cache_launch(handles.cache.get(), handles.executor.get(), &arguments, nullptr);
}

/// An attention problem with starts and a workspace.
struct Fixture {
  attention a{};
  void* workspace = nullptr;
  std::int64_t workspace_bytes = std::int64_t{1} << 20;

  Fixture() {
    attention_create(&a);
    constexpr std::int32_t kStarts[STARTS] = {0, 20, 33, 40};
    attention_set_starts(&a, kStarts);
    workspace = attention_allocate(&a, static_cast<std::size_t>(workspace_bytes));
  }
  ~Fixture() {
    CHECK(hipDeviceSynchronize() == hipSuccess);
    attention_destroy(&a);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  fmhax_error_code use() const { return use_everything(a, workspace, workspace_bytes); }
  /// Gradients of a call now, against fp64.
  double error() {
    fmhax_executor* executor = nullptr;
    REQUIRE(fmhax_executor_create(&a.problem, nullptr, &executor) == FMHAX_OK);
    a.arguments.workspace = workspace;
    a.arguments.workspace_bytes = workspace_bytes;
    CHECK(fmhax_executor_enqueue_forward(executor, &a.arguments, nullptr) == FMHAX_OK);
    CHECK(fmhax_executor_enqueue(executor, &a.arguments, nullptr) == FMHAX_OK);
    const double result = attention_error(&a);
    fmhax_executor_destroy(executor);
    return result;
  }
};

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("whichever HIP call fails, the function that made it says so or did without") {
  Fixture fixture;
  REQUIRE(fixture.use() == FMHAX_OK);  // what is made once per process is made
  CalledFunctions called;
  {
    const hiphost::ApiObservation observation(called);
    REQUIRE(fixture.use() == FMHAX_OK);
  }
  CHECK(called.names().size() > 10);

  int refused = 0;
  for (const std::string& function : called.names()) {
    bool has_failed = true;
    for (std::uint64_t call = 1; has_failed && call < 1000; ++call) {
      CAPTURE(function);
      CAPTURE(call);
      hiphost::FaultInjection fault({.call = call, .function = function, .this_thread_only = true});
      const fmhax_error_code code = fixture.use();
      fault.suspend();
      has_failed = fault.failed() != nullptr;
      if (code == FMHAX_OK) continue;
      ++refused;
      CHECK((code == FMHAX_ERROR_HIP || code == FMHAX_ERROR_OUT_OF_MEMORY));
      CHECK(std::string(fmhax_last_error_message()).find(name_in_source(function)) != std::string::npos);
      CHECK(fmhax_last_hip_error() != 0);
    }
  }
  CHECK(refused > 20);
  CHECK(fixture.error() <= 1e-5);
}

TEST_CASE("whichever allocation fails, the function that made it says out of memory") {
  Fixture fixture;
  REQUIRE(fixture.use() == FMHAX_OK);
  RuntimeWatch watch;
  const hiphost::ApiObservation observation(watch);
  int refused = 0;
  std::int64_t allocation = 0;
  for (bool has_failed = true; has_failed && allocation < 10000; ++allocation) {
    CAPTURE(allocation);
    allocations_until_failure = allocation;
    const fmhax_error_code code = fixture.use();
    has_failed = std::exchange(allocations_until_failure, -1) < 0;
    if (code == FMHAX_OK) continue;
    ++refused;
    CHECK(code == FMHAX_ERROR_OUT_OF_MEMORY);
  }
  CHECK(allocation > 20);
  CHECK(refused > 20);
  CHECK(fixture.error() <= 1e-5);
}
