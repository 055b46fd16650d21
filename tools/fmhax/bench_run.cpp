#include "bench_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fmhax/graph.hpp"
#include "fmhax/problem.hpp"
#include "host_cost.hpp"
#include "verification/device_problem.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;

/// More than the last-level caches of what this runs on.
constexpr double kRotatedBytes = 256e6;
constexpr int kMostCopies = 8;

class Event {
 public:
  Event() { check_hip(hipEventCreate(&event_), "hipEventCreate"); }
  ~Event() { (void)hipEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  hipEvent_t get() const { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What a forward might have left: numbers of the right size are enough to be timed.
verification::ForwardResult plausible_forward(const verification::AttentionInputs& in) {
  const auto longest = static_cast<double>(std::max<std::int64_t>(in.problem.max_seqlen_k, 1));
  verification::ForwardResult forward{
      in.dout, verification::DenseTensor(in.q.batch, in.q.seqlen, in.q.nhead, 1, std::log(longest) + 0.5)};
  for (double& x : forward.o.data) x /= 8;
  return forward;
}

int copies_of(const verification::AttentionInputs& in) {
  const double elements =
      2.0 * static_cast<double>(in.q.data.size() + in.k.data.size() + in.v.data.size() + in.dout.data.size());
  const double bytes = elements * static_cast<double>(element_size(in.problem.dtype));
  return std::clamp(static_cast<int>(std::ceil(kRotatedBytes / std::max(bytes, 1.0))), 1, kMostCopies);
}

/// Calls launch(copy, stream) again and again, each time on an idle stream.
ModeTimes measure(int copies, const BenchOptions& options, double flops,
                  const std::function<void(int, hipStream_t)>& launch) {
  const verification::OwnedStream stream;
  const Event start;
  const Event stop;
  std::vector<double> host_us;
  std::vector<double> device_ms;
  std::vector<double> instructions;
  const InstructionCounter counter;
  for (int i = -options.warmup; i < options.iterations; ++i) {
    check_hip(hipEventRecord(start.get(), stream.get()), "hipEventRecord");
    const auto counted_before = counter.read();
    const auto before = std::chrono::steady_clock::now();
    launch((i + options.warmup) % copies, stream.get());
    const auto after = std::chrono::steady_clock::now();
    const auto counted_after = counter.read();
    check_hip(hipEventRecord(stop.get(), stream.get()), "hipEventRecord");
    stream.synchronize();
    if (i < 0) continue;
    float elapsed_ms = 0;
    check_hip(hipEventElapsedTime(&elapsed_ms, start.get(), stop.get()), "hipEventElapsedTime");
    host_us.push_back(std::chrono::duration<double, std::micro>(after - before).count());
    device_ms.push_back(static_cast<double>(elapsed_ms));
    if (counted_before && counted_after) instructions.push_back(static_cast<double>(*counted_after - *counted_before));
  }
  ModeTimes times;
  times.host_us = median(std::move(host_us));
  times.device_ms = median(std::move(device_ms));
  if (!instructions.empty()) times.host_instructions = median(std::move(instructions));
  times.hip_calls = hip_calls_of([&] { launch(0, stream.get()); });
  stream.synchronize();
  times.tflops = times.device_ms > 0 ? flops / (times.device_ms * 1e9) : 0.0;
  return times;
}

}  // namespace

double flops_of(const verification::Case& c) {
  const Problem& p = c.problem;
  const bool is_causal = p.mask.window_left < 0 && p.mask.window_right == 0;
  Problem counted = p;
  if (is_causal) counted.mask = Mask::none();
  const auto pairs = static_cast<double>(verification::visible_pairs(counted, c.lengths)) * (is_causal ? 0.5 : 1.0);
  return 2.5 * 2 * pairs * static_cast<double>(p.hdim_q + p.hdim_v);
}

BenchResult bench(const verification::Case& c, const ExecutorOptions& executor_options, const BenchOptions& options) {
  const Executor executor(c.problem, executor_options);
  const verification::AttentionInputs inputs = draw_inputs(c);
  const verification::ForwardResult forward = plausible_forward(inputs);
  std::vector<std::unique_ptr<verification::DeviceProblem>> copies;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int i = copies_of(inputs); i > 0; --i) {
    copies.push_back(std::make_unique<verification::DeviceProblem>(c, inputs, forward, executor));
    graphs.push_back(std::make_unique<Graph>(executor, copies.back()->arguments()));
  }
  const auto count = static_cast<int>(copies.size());
  BenchResult result;
  result.problem = to_string(c.problem);
  result.kernel = executor.kernel_choice().entry().name;
  result.workspace_bytes = executor.workspace_size();
  result.flops = flops_of(c);
  result.eager = measure(count, options, result.flops, [&](int copy, hipStream_t stream) {
    executor.enqueue(copies[static_cast<std::size_t>(copy)]->arguments(), stream);
  });
  result.graph = measure(count, options, result.flops,
                         [&](int copy, hipStream_t stream) { graphs[static_cast<std::size_t>(copy)]->launch(stream); });
  return result;
}

}  // namespace fmhax::tool
