// Prints what an operation costs; fails only where a cost is off by orders of magnitude.
#include <cstdio>

#include "support.hpp"

namespace {

using Clock = std::chrono::steady_clock;

void nothing(int) {}

// Microseconds per call of f, with everything that it enqueued done; prints also what the calls alone took.
template <class F>
double cost(const char* what, int count, hipStream_t stream, F&& f) {
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  };
  for (int i = 0; i < count / 10; ++i) REQUIRE_OK(f());
  REQUIRE_OK(hipStreamSynchronize(stream));
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) REQUIRE_OK(f());
  const double enqueued = since(start);
  REQUIRE_OK(hipStreamSynchronize(stream));
  const double all = since(start);
  std::printf("%-28s %7.3f us to enqueue, %7.3f us in all\n", what, enqueued / count, all / count);
  return all / count;
}

}  // namespace

TEST_CASE("operations cost microseconds") {
  static constexpr double kOrdersOfMagnitudeOff = 500;
  const test::Stream stream;
  const test::Buffer<int> device(64), host(64, test::Where::kPinned);
  const test::Event event(hipEventDisableTiming);
  const auto set = [&] { return hipMemsetAsync(device, 0, 64, stream); };
  CHECK_LT(cost("memset", 20000, stream, set), kOrdersOfMagnitudeOff);
  CHECK_LT(cost("copy, 64 bytes, pinned", 20000, stream,
                [&] { return hipMemcpyAsync(device, host, 64, hipMemcpyHostToDevice, stream); }),
           kOrdersOfMagnitudeOff);
  CHECK_LT(cost("kernel of one block", 20000, stream, [&] { return hiphost::launch(nothing, 1, 1, 0, stream, 1); }),
           kOrdersOfMagnitudeOff);
  CHECK_LT(cost("host function", 20000, stream,
                [&] {
                  return hipLaunchHostFunc(
                      stream, [](void*) {}, nullptr);
                }),
           kOrdersOfMagnitudeOff);
  CHECK_LT(cost("event record", 20000, stream, [&] { return hipEventRecord(event, stream); }), kOrdersOfMagnitudeOff);
  CHECK_LT(cost("memset and synchronise", 2000, stream,
                [&] {
                  const hipError_t status = set();
                  return status != hipSuccess ? status : hipStreamSynchronize(stream);
                }),
           kOrdersOfMagnitudeOff * 10);
  const test::Graph graph(test::capture(stream, [&] {
    for (int i = 0; i < 10; ++i) REQUIRE_OK(set());
  }));
  const test::Exec exec(graph);
  CHECK_LT(cost("graph of ten memsets", 2000, stream, [&] { return hipGraphLaunch(exec, stream); }),
           kOrdersOfMagnitudeOff * 10);
  const auto start = Clock::now();
  static constexpr unsigned kBlocks = 1'000'000;
  REQUIRE_OK(hiphost::launch(nothing, kBlocks, 1, 0, stream, 1));
  REQUIRE_OK(hipStreamSynchronize(stream));
  const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kBlocks;
  std::printf("%-28s %7.1f ns\n", "empty block", ns);
  CHECK_LT(ns, 5000);
}
