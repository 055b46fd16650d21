#include "verification/device_problem.hpp"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "fmhax/graph.hpp"

namespace fmhax::verification {
namespace {

TensorShape shape_q(const Problem& p, DataType dtype, std::int64_t hdim, const Layout& layout) {
  return {dtype, tensor_batch(p), tensor_seqlen_q(p), p.nhead_q, hdim, layout};
}

TensorShape shape_k(const Problem& p, std::int64_t hdim, const Layout& layout) {
  return {p.dtype, tensor_batch(p), tensor_seqlen_k(p), p.nhead_k, hdim, layout};
}

std::vector<SequencePlace> all_places(const Problem& p, const SideLengths& side, std::int64_t max_seqlen) {
  std::vector<SequencePlace> places;
  for (std::int64_t i = 0; i < p.batch; ++i) places.push_back(place_of(p, side, max_seqlen, i));
  return places;
}

/// The array that a call's logical lengths are given in.
std::vector<std::int32_t> logical_array(const Problem& p, const std::vector<std::int32_t>& lengths) {
  if (p.logical_lengths != LogicalLengths::cumulative) return lengths;
  std::vector<std::int32_t> sums(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), sums.begin() + 1);
  return sums;
}

/// Uploads into a buffer that keeps its address once it exists.
void upload(const std::vector<std::int32_t>& values, GuardedBuffer& buffer) {
  std::vector<std::byte> bytes(values.size() * sizeof(std::int32_t));
  if (bytes.empty()) return;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  if (buffer.data() == nullptr) buffer = GuardedBuffer(bytes.size());
  buffer.upload(bytes);
}

const std::int32_t* pointer(const GuardedBuffer& buffer) { return static_cast<const std::int32_t*>(buffer.data()); }

/// An instantiated graph that a capture gave.
class CapturedGraph {
 public:
  CapturedGraph(const Executor& executor, const CallArguments& arguments, hipStream_t stream) {
    check_hip(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
    try {
      executor.enqueue(arguments, stream);
    } catch (...) {
      hipGraph_t unfinished = nullptr;
      if (hipStreamEndCapture(stream, &unfinished) == hipSuccess) (void)hipGraphDestroy(unfinished);
      throw;
    }
    hipGraph_t graph = nullptr;
    check_hip(hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
    const hipError_t instantiated = hipGraphInstantiate(&executable_, graph, nullptr, nullptr, 0);
    // The executable must do without the graph that it was made from.
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
    check_hip(instantiated, "hipGraphInstantiate");
  }
  ~CapturedGraph() { (void)hipGraphExecDestroy(executable_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void launch(hipStream_t stream) { check_hip(hipGraphLaunch(executable_, stream), "hipGraphLaunch"); }

 private:
  hipGraphExec_t executable_ = nullptr;
};

}  // namespace

const char* to_string(RunMode mode) {
  switch (mode) {
    case RunMode::eager:
      return "eager";
    case RunMode::captured:
      return "captured";
    case RunMode::graph:
      return "graph";
    case RunMode::prepared:
      break;
  }
  return "prepared";
}

DeviceProblem::DeviceProblem(const Case& c, const AttentionInputs& inputs, const ForwardResult& forward,
                             const Executor& executor)
    : case_(c),
      executor_(executor),
      q_(shape_q(c.problem, c.problem.dtype, c.problem.hdim_q, c.layouts.q)),
      k_(shape_k(c.problem, c.problem.hdim_q, c.layouts.k)),
      v_(shape_k(c.problem, c.problem.hdim_v, c.layouts.v)),
      o_(shape_q(c.problem, c.problem.dtype, c.problem.hdim_v, c.layouts.o)),
      dout_(shape_q(c.problem, c.problem.dtype, c.problem.hdim_v, c.layouts.dout)),
      lse_(shape_q(c.problem, DataType::fp32, 1, c.layouts.lse)),
      d_(shape_q(c.problem, DataType::fp32, 1, c.layouts.d)),
      dq_(shape_q(c.problem, c.problem.dtype, c.problem.hdim_q, c.layouts.dq)),
      dk_(shape_k(c.problem, c.problem.hdim_q, c.layouts.dk)),
      dv_(shape_k(c.problem, c.problem.hdim_v, c.layouts.dv)),
      features_(c) {
  const std::int64_t workspace_bytes = executor_.workspace_size();
  if (workspace_bytes > 0) workspace_ = GuardedBuffer(static_cast<std::size_t>(workspace_bytes));
  load(c, inputs, forward);
  arguments_ = {c.scale,      q_.view(),   k_.view(),         v_.view(),       o_.view(),
                dout_.view(), lse_.view(), d_.view(),         dq_.view(),      dk_.view(),
                dv_.view(),   {},          workspace_.data(), workspace_bytes, StatusBuffer::create()};
  features_.fill(arguments_);
  SequenceLengths& lengths = arguments_.lengths;
  lengths.seqstart_q = pointer(lengths_.seqstart_q);
  lengths.seqstart_k = pointer(lengths_.seqstart_k);
  const bool is_cumulative = c.problem.logical_lengths == LogicalLengths::cumulative;
  (is_cumulative ? lengths.cu_seqlen_q : lengths.seqlen_q) = pointer(lengths_.logical_q);
  (is_cumulative ? lengths.cu_seqlen_k : lengths.seqlen_k) = pointer(lengths_.logical_k);
}

void DeviceProblem::load(const Case& c, const AttentionInputs& inputs, const ForwardResult& forward) {
  case_ = c;
  const auto rows_of_q = all_places(c.problem, c.lengths.q, c.problem.max_seqlen_q);
  const auto rows_of_k = all_places(c.problem, c.lengths.k, c.problem.max_seqlen_k);
  q_.upload(inputs.q, rows_of_q);
  k_.upload(inputs.k, rows_of_k);
  v_.upload(inputs.v, rows_of_k);
  dout_.upload(inputs.dout, rows_of_q);
  o_.upload(forward.o, rows_of_q);
  DenseTensor lse = forward.lse;
  if (c.empty_rows_have_positive_lse) {
    for (double& x : lse.data) {
      if (std::isinf(x)) x = std::numeric_limits<double>::infinity();
    }
  }
  lse_.upload(lse, rows_of_q);
  features_.load(c, inputs);
  upload(c.lengths.q.seqstart, lengths_.seqstart_q);
  upload(c.lengths.k.seqstart, lengths_.seqstart_k);
  if (c.problem.logical_lengths != LogicalLengths::none) {
    // Padded by one entry, so that no sequences still give an array.
    auto logical_q = logical_array(c.problem, c.lengths.q.logical);
    auto logical_k = logical_array(c.problem, c.lengths.k.logical);
    if (logical_q.empty()) logical_q = logical_k = {0};
    upload(logical_q, lengths_.logical_q);
    upload(logical_k, lengths_.logical_k);
  }
}

std::vector<RunResult> DeviceProblem::run(RunMode mode, int replays) {
  const OwnedStream stream;
  std::vector<RunResult> results;
  const auto repeat = [&](const auto& launch) {
    for (int i = 0; i < replays; ++i) {
      poison_outputs();
      launch();
      stream.synchronize();
      results.push_back(result());
    }
  };
  switch (mode) {
    case RunMode::eager:
      repeat([&] { executor_.enqueue(arguments_, stream.get()); });
      break;
    case RunMode::prepared:
      repeat([&] { run_prepared(stream.get()); });
      break;
    case RunMode::captured: {
      CapturedGraph graph(executor_, arguments_, stream.get());
      repeat([&] { graph.launch(stream.get()); });
      break;
    }
    case RunMode::graph: {
      Graph graph(executor_, arguments_);
      repeat([&] {
        graph.launch(stream.get());
        stream.synchronize();
      });
      if (!results.empty()) results.back().status = graph.status();
      break;
    }
  }
  return results;
}

void DeviceProblem::run_prepared(hipStream_t stream) {
  const Problem& p = case_.problem;
  const auto logical_q = logical_array(p, case_.lengths.q.logical);
  const auto logical_k = logical_array(p, case_.lengths.k.logical);
  SequenceLengths host;
  if (p.is_group_mode) {
    host.seqstart_q = case_.lengths.q.seqstart.data();
    host.seqstart_k = case_.lengths.k.seqstart.data();
  }
  if (p.logical_lengths == LogicalLengths::per_sequence) {
    host.seqlen_q = logical_q.data();
    host.seqlen_k = logical_k.data();
  } else if (p.logical_lengths == LogicalLengths::cumulative) {
    host.cu_seqlen_q = logical_q.data();
    host.cu_seqlen_k = logical_k.data();
  }
  CallArguments exact = arguments_;
  exact.workspace_bytes =
      p.is_group_mode ? executor_.workspace_size(host.seqstart_q, host.seqstart_k) : executor_.workspace_size();
  exact_workspace_ =
      exact.workspace_bytes > 0 ? GuardedBuffer(static_cast<std::size_t>(exact.workspace_bytes)) : GuardedBuffer();
  exact.workspace = exact_workspace_.data();
  executor_.prepare_workspace(exact, host, stream);
  executor_.enqueue_kernels(exact, stream);
}

void DeviceProblem::poison_outputs() {
  for (DeviceTensor* tensor : {&d_, &dq_, &dk_, &dv_}) tensor->poison();
  features_.poison_outputs();
  if (workspace_.data() != nullptr) workspace_.poison();
}

Gradients DeviceProblem::download_gradients() const {
  Gradients gradients{dq_.download(), dk_.download(), dv_.download()};
  features_.download(gradients);
  return gradients;
}

ForwardRun DeviceProblem::run_forward() {
  const OwnedStream stream;
  o_.poison();
  lse_.poison();
  features_.poison_outputs();
  executor_.enqueue_forward(arguments_, stream.get());
  stream.synchronize();
  Gradients outputs;
  features_.download(outputs);
  ForwardRun run{o_.download(), lse_.download(), std::move(outputs.random_values), features_.violation()};
  for (const DeviceTensor* tensor : {&o_, &lse_}) {
    if (run.violation.empty()) run.violation = tensor->stray_write();
  }
  return run;
}

std::string DeviceProblem::violation() const {
  for (const auto& [name, tensor] :
       {std::pair{"q", &q_}, {"k", &k_}, {"v", &v_}, {"o", &o_}, {"dout", &dout_}, {"lse", &lse_}}) {
    if (!tensor->is_unchanged()) return fmt::format("{}: an input was written", name);
  }
  for (const auto& [name, tensor] : {std::pair{"q", &q_},
                                     {"k", &k_},
                                     {"v", &v_},
                                     {"o", &o_},
                                     {"dout", &dout_},
                                     {"lse", &lse_},
                                     {"d", &d_},
                                     {"dq", &dq_},
                                     {"dk", &dk_},
                                     {"dv", &dv_}}) {
    const std::string stray = tensor->stray_write();
    if (!stray.empty()) return fmt::format("{}: {}", name, stray);
  }
  for (const GuardedBuffer* buffer : {&workspace_, &exact_workspace_}) {
    if (buffer->data() != nullptr && !buffer->guards_are_intact()) return "workspace: a guard zone was overwritten";
  }
  for (const GuardedBuffer* buffer :
       {&lengths_.seqstart_q, &lengths_.seqstart_k, &lengths_.logical_q, &lengths_.logical_k}) {
    if (buffer->data() != nullptr && !buffer->guards_are_intact()) return "lengths: a guard zone was overwritten";
  }
  return features_.violation();
}

RunResult DeviceProblem::result() const { return {download_gradients(), arguments_.status.read(), violation()}; }

}  // namespace fmhax::verification
