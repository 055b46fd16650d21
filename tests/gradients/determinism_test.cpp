/// @file The same bits on every run, stream, graph and replay.
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "gradient_test.hpp"
#include "verification/device_problem.hpp"

using namespace fmhax;
using namespace fmhax::verification;

namespace {

std::vector<Case> deterministic_cases() {
  std::vector<Case> cases{test::batch_case(2, 300, 700), test::batch_case(3, 129, 400, Mask::causal()),
                          test::batch_case(2, 40, 90), test::group_case({200, 1, 300, 0}, {500, 130, 64, 7}),
                          test::group_case({200, 1, 300, 0}, {500, 130, 64, 7}, Mask::window(50, 10))};
  for (Case& c : cases) {
    c.problem.is_deterministic = true;
    c.problem.nhead_q = 3;
    c.problem.nhead_k = 1;
  }
  return cases;
}

}  // namespace

TEST_CASE("deterministic gradients have the same bits eager, captured, as a graph, prepared, and on every replay") {
  for (Case c : deterministic_cases()) {
    for (const DataType dtype : {DataType::fp32, DataType::bf16}) {
      c.problem.dtype = dtype;
      const PreparedCase prepared = prepare(c);
      for (const std::string& kernel : test::kernels_for(c.problem)) {
        INFO(to_string(c), "; kernel ", kernel);
        ExecutorOptions options;
        options.kernel = kernel;
        DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem, options));
        std::optional<Gradients> first;
        for (const RunMode mode : test::all_modes()) {
          for (const RunResult& run : device.run(mode, 4)) {
            if (!first) {
              first = run.gradients;
              CHECK(compare(c, *first, prepared.expected).passed());
            }
            CHECK_MESSAGE(same_bits(run.gradients, *first), to_string(mode));
          }
        }
      }
    }
  }
}

TEST_CASE("deterministic gradients have the same bits while other streams are busy") {
  const Case c = deterministic_cases().front();
  const PreparedCase prepared = prepare(c);
  const Executor executor(c.problem);
  constexpr int kThreads = 3;
  std::vector<std::vector<RunResult>> results(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(results.size());
    for (auto& mine : results) {
      threads.emplace_back([&mine, &c, &prepared, &executor] {
        DeviceProblem device(c, prepared.inputs, prepared.expected.forward, executor);
        mine = device.run(RunMode::eager, 4);
        for (const RunResult& run : device.run(RunMode::graph, 4)) mine.push_back(run);
      });
    }
  }
  const Gradients& first = results.front().front().gradients;
  CHECK(compare(c, first, prepared.expected).passed());
  for (const auto& mine : results) {
    REQUIRE(mine.size() == 8);
    for (const RunResult& run : mine) CHECK(same_bits(run.gradients, first));
  }
}

TEST_CASE("dk and dv are deterministic even when dq need not be") {
  for (Case c : deterministic_cases()) {
    c.problem.is_deterministic = false;
    const PreparedCase prepared = prepare(c);
    DeviceProblem device(c, prepared.inputs, prepared.expected.forward, Executor(c.problem));
    const std::vector<RunResult> runs = device.run(RunMode::eager, 4);
    for (const RunResult& run : runs) {
      CHECK(run.gradients.dk.data == runs.front().gradients.dk.data);
      CHECK(run.gradients.dv.data == runs.front().gradients.dv.data);
    }
  }
}
