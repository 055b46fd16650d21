#include "bench_run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "call_timer.hpp"
#include "fmhax/graph.hpp"
#include "fmhax/problem.hpp"
#include "verification/device_problem.hpp"

namespace fmhax::tool {
namespace {

using verification::check_hip;
using verification::DeviceProblem;

/// More than the last-level caches of what this runs on.
constexpr double kRotatedBytes = 256e6;
constexpr int kMostCopies = 8;

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

/// A plan and its tensors, several times.
class Copies {
 public:
  Copies(const verification::Case& c, const ExecutorOptions& options) : executor_(c.problem, options) {
    const verification::AttentionInputs inputs = draw_inputs(c);
    const verification::ForwardResult forward = plausible_forward(inputs);
    for (int i = copies_of(inputs); i > 0; --i) {
      problems_.push_back(std::make_unique<DeviceProblem>(c, inputs, forward, executor_));
    }
  }

  const Executor& executor() const { return executor_; }
  int count() const { return static_cast<int>(problems_.size()); }
  const CallArguments& arguments(int copy) { return problems_[static_cast<std::size_t>(copy)]->arguments(); }

 private:
  Executor executor_;
  std::vector<std::unique_ptr<DeviceProblem>> problems_;
};

/// `executor` may be another plan for the same problem and kernel as the copies' own.
void add_eager_and_graph(Copies& copies, const Executor& executor, const std::string& suffix,
                         const BenchOptions& options, BenchResult& result) {
  result.ways.push_back(
      {"eager" + suffix, time_calls(copies.count(), options, result.flops, [&](int copy, hipStream_t stream) {
         executor.enqueue(copies.arguments(copy), stream);
       })});
  std::vector<Graph> graphs;
  for (int i = 0; i < copies.count(); ++i) graphs.emplace_back(executor, copies.arguments(i));
  result.ways.push_back(
      {"graph" + suffix, time_calls(copies.count(), options, result.flops, [&](int copy, hipStream_t stream) {
         graphs[static_cast<std::size_t>(copy)].launch(stream);
       })});
}

/// enqueue_kernels() of one copy, captured.
class KernelGraph {
 public:
  KernelGraph(const Executor& executor, const CallArguments& arguments) {
    const verification::OwnedStream stream;
    check_hip(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
    executor.enqueue_kernels(arguments, stream.get());
    hipGraph_t graph = nullptr;
    check_hip(hipStreamEndCapture(stream.get(), &graph), "hipStreamEndCapture");
    const hipError_t instantiated = hipGraphInstantiate(&executable_, graph, nullptr, nullptr, 0);
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
    check_hip(instantiated, "hipGraphInstantiate");
  }
  ~KernelGraph() { (void)hipGraphExecDestroy(executable_); }
  KernelGraph(const KernelGraph&) = delete;
  KernelGraph& operator=(const KernelGraph&) = delete;
  void launch(hipStream_t stream) const { check_hip(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }

 private:
  hipGraphExec_t executable_ = nullptr;
};

void add_kernels_alone(Copies& copies, const BenchOptions& options, BenchResult& result) {
  const Executor& executor = copies.executor();
  const verification::OwnedStream stream;
  for (int i = 0; i < copies.count(); ++i) executor.prepare_workspace_async(copies.arguments(i), stream.get());
  stream.synchronize();
  result.ways.push_back(
      {"eager, kernels alone", time_calls(copies.count(), options, result.flops, [&](int copy, hipStream_t on) {
         executor.enqueue_kernels(copies.arguments(copy), on);
       })});
  std::vector<std::unique_ptr<KernelGraph>> graphs;
  for (int i = 0; i < copies.count(); ++i) {
    graphs.push_back(std::make_unique<KernelGraph>(executor, copies.arguments(i)));
  }
  result.ways.push_back(
      {"graph, kernels alone", time_calls(copies.count(), options, result.flops, [&](int copy, hipStream_t on) {
         graphs[static_cast<std::size_t>(copy)]->launch(on);
       })});
}

void add_paths(Copies& copies, const verification::Case& c, ExecutorOptions executor_options,
               const BenchOptions& options, BenchResult& result) {
  add_kernels_alone(copies, options, result);
  executor_options.kernel = result.kernel;
  for (const auto& [suffix, path, keepalive] :
       {std::tuple{", device metadata", MetadataPath::device, Keepalive::event},
        {", host metadata, event", MetadataPath::host, Keepalive::event},
        {", host metadata, host function", MetadataPath::host, Keepalive::host_function}}) {
    executor_options.metadata_path = path;
    executor_options.keepalive = keepalive;
    try {
      add_eager_and_graph(copies, Executor(c.problem, executor_options), suffix, options, result);
    } catch (const Error& error) {
      // Kernels from outside may have none that makes metadata on the device.
      if (error.code() != ErrorCode::unsupported || path != MetadataPath::device) throw;
    }
  }
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
  Copies copies(c, executor_options);
  BenchResult result;
  result.problem = to_string(c.problem);
  result.kernel = copies.executor().kernel_choice().entry().name;
  result.workspace_bytes = copies.executor().workspace_size();
  result.flops = flops_of(c);
  add_eager_and_graph(copies, copies.executor(), "", options, result);
  if (options.covers_paths && c.problem.is_group_mode) add_paths(copies, c, executor_options, options, result);
  return result;
}

}  // namespace fmhax::tool
