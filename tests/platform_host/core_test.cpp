// The seams of the core: which ready task comes next, and the hook that sees every call.
#include <cstring>
#include <string>

#include "api.hpp"
#include "scheduler.hpp"
#include "support.hpp"

namespace {

// Last in, first out, one task at a time.
class Backwards final : public hiphost::TaskChooser {
 public:
  void add(hiphost::Task& ready) noexcept override { ready_.push_back(&ready); }
  hiphost::Task* take(std::size_t running) noexcept override {
    if (running != 0 || ready_.empty() || !open.load()) return nullptr;
    most = std::max(most, running + 1);
    hiphost::Task* task = ready_.back();
    ready_.pop_back();
    return task;
  }
  std::atomic<bool> open{true};
  std::size_t most = 0;

 private:
  std::vector<hiphost::Task*> ready_;
};

class FailNth final : public hiphost::ApiHook {
 public:
  explicit FailNth(int n) : left_(n) {}
  hipError_t entered(const char* function) noexcept override {
    if (--left_ != 0) return hipSuccess;
    failed = function;
    return hipErrorUnknown;
  }
  std::string failed;

 private:
  std::atomic<int> left_;
};

}  // namespace

TEST_CASE("a chooser decides the order of ready tasks and how many run") {
  REQUIRE_OK(hipDeviceSynchronize());
  Backwards chooser;
  hiphost::runtime().scheduler.set_chooser(&chooser);
  {
    const test::Stream gate_stream;
    std::vector<std::unique_ptr<test::Stream>> streams;
    struct Note {
      std::vector<int>* order;
      int value;
    };
    std::vector<int> order;
    std::vector<Note> notes;
    for (int i = 0; i < 5; ++i) notes.push_back({&order, i});
    test::Gate gate;
    REQUIRE_OK(hipLaunchHostFunc(gate_stream, test::Gate::host_function, &gate));
    REQUIRE(test::eventually([&] { return gate.entered(); }));
    for (Note& note : notes) {
      streams.push_back(std::make_unique<test::Stream>());
      REQUIRE_OK(hipLaunchHostFunc(
          *streams.back(),
          [](void* data) {
            const auto* n = static_cast<Note*>(data);
            n->order->push_back(n->value);
          },
          &note));
    }
    gate.open();
    REQUIRE_OK(hipDeviceSynchronize());
    CHECK(order == std::vector<int>{4, 3, 2, 1, 0});
    CHECK_EQ(chooser.most, 1);
  }
  hiphost::runtime().scheduler.set_chooser(nullptr);
}

TEST_CASE("a hook sees each call by name and can make it fail before it does anything") {
  const test::Buffer<char> buffer(8);
  FailNth hook(2);
  hiphost::set_api_hook(&hook);
  const hipError_t first = hipMemset(buffer, 1, 8);
  void* memory = nullptr;
  const hipError_t second = hipMalloc(&memory, 8);
  const hipError_t third = hipMemset(buffer, 1, 8);
  hiphost::set_api_hook(nullptr);
  CHECK_OK(first);
  CHECK_IS(second, hipErrorUnknown);
  CHECK_EQ(memory, nullptr);
  CHECK_OK(third);
  CHECK_EQ(hook.failed, "hipMalloc");
  CHECK_IS(hipGetLastError(), hipErrorUnknown);
}
