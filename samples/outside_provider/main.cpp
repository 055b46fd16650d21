// Kernels from outside of fmhax: registered, chosen by name, run eagerly and as a graph whose sequences change between
// replays, and compared with the built-in ones. plain_provider.cpp shows how kernels are described, plain_kernels.cpp
// what they have to do.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "fmhax/fmhax.hpp"
#include "plain_provider.hpp"

namespace {

constexpr std::int64_t kBatch = 3, kTokens = 192, kHeads = 4, kKeyHeads = 2, kHdim = 40;
constexpr double kLimit = 1e-5;  // of a relative difference; both providers compute in fp32

void wait_for_device() {
  const hipError_t error = hipDeviceSynchronize();
  if (error != hipSuccess) throw std::runtime_error(std::string("hipDeviceSynchronize: ") + hipGetErrorName(error));
}

/// Memory that host and device both see, filled with numbers between -1 and 1.
class Memory {
 public:
  float* allocate(std::int64_t count) {
    float* data = nullptr;
    if (hipMallocManaged(&data, static_cast<std::size_t>(count) * sizeof(float)) != hipSuccess) throw std::bad_alloc();
    blocks_.emplace_back(data, [](float* block) { (void)hipFree(block); });
    std::generate_n(data, count, [&] { return static_cast<float>(random_() % 2001) / 1000 - 1; });
    return data;
  }

 private:
  std::minstd_rand random_{1};
  std::vector<std::shared_ptr<float>> blocks_;
};

fmhax::TensorView tensor(Memory& memory, const fmhax::Problem& p, std::int64_t nhead) {
  float* data = memory.allocate(kTokens * nhead * kHdim);
  return p.is_group_mode ? fmhax::TensorView::thd(data, p.dtype, kTokens, nhead, kHdim)
                         : fmhax::TensorView::bshd(data, p.dtype, p.batch, kTokens / p.batch, nhead, kHdim);
}

fmhax::TensorView rows(Memory& memory, const fmhax::Problem& p) {
  float* data = memory.allocate(kTokens * kHeads);
  return p.is_group_mode ? fmhax::TensorView::rows_ht(data, kHeads, kTokens)
                         : fmhax::TensorView::rows_bhs(data, p.batch, kHeads, kTokens / p.batch);
}

/// The named kernel and no other; without a name the best one.
fmhax::ExecutorOptions options_of(const std::string& kernel) {
  fmhax::ExecutorOptions options;
  options.kernel = kernel;
  return options;
}

/// One provider's side of the comparison: a plan, and results of its own from inputs that both share.
struct Side {
  fmhax::Executor executor;
  fmhax::CallArguments call;

  Side(const fmhax::Problem& problem, const fmhax::CallArguments& inputs, const std::string& kernel, Memory& memory)
      : executor(problem, options_of(kernel)), call(inputs) {
    call.dq = tensor(memory, problem, kHeads);
    call.dk = tensor(memory, problem, kKeyHeads);
    call.dv = tensor(memory, problem, kKeyHeads);
    call.o = tensor(memory, problem, kHeads);
    call.lse = rows(memory, problem);
    call.d = rows(memory, problem);
    call.workspace_bytes = executor.workspace_size();
    call.workspace = memory.allocate(call.workspace_bytes / 4 + 1);
    call.status = fmhax::StatusBuffer::create();
  }
};

double relative_difference(const fmhax::TensorView& a, const fmhax::TensorView& b) {
  const auto* x = static_cast<const float*>(a.data);
  const auto* y = static_cast<const float*>(b.data);
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < a.batch * a.stride_batch; ++i) {
    difference += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    norm += std::pow(static_cast<double>(y[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// Prints how far two sides' results are from each other; true when that is within the limit.
bool agree(const std::string& what, const Side& plain, const Side& built_in) {
  wait_for_device();
  bool is_within = plain.call.status.read().code == fmhax::StatusCode::ok;
  std::printf("%-34s", what.c_str());
  const std::array<std::pair<const char*, fmhax::TensorView fmhax::CallArguments::*>, 4> fields{
      {{"o", &fmhax::CallArguments::o},
       {"dq", &fmhax::CallArguments::dq},
       {"dk", &fmhax::CallArguments::dk},
       {"dv", &fmhax::CallArguments::dv}}};
  for (const auto& [name, field] : fields) {
    const double difference = relative_difference(plain.call.*field, built_in.call.*field);
    std::printf("  %s %.1e", name, difference);
    is_within = is_within && difference <= kLimit;  // false for NaN as well
  }
  std::printf("%s\n", is_within ? "" : "  DISAGREE");
  return is_within;
}

fmhax::Problem problem_of(bool is_group_mode) {
  fmhax::Problem problem;
  problem.dtype = fmhax::DataType::fp32;
  problem.is_group_mode = is_group_mode;
  problem.batch = kBatch;
  problem.nhead_q = kHeads;
  problem.nhead_k = kKeyHeads;
  problem.hdim_q = problem.hdim_v = kHdim;
  problem.max_seqlen_q = problem.max_seqlen_k = is_group_mode ? kTokens : kTokens / kBatch;
  problem.total_q = problem.total_k = is_group_mode ? kTokens : 0;
  problem.mask = fmhax::Mask::causal();
  return problem;
}

fmhax::CallArguments inputs_of(const fmhax::Problem& problem, Memory& memory) {
  fmhax::CallArguments inputs;
  inputs.scale = 1.0F / std::sqrt(static_cast<float>(kHdim));
  inputs.q = tensor(memory, problem, kHeads);
  inputs.k = tensor(memory, problem, kKeyHeads);
  inputs.v = tensor(memory, problem, kKeyHeads);
  inputs.dout = tensor(memory, problem, kHeads);
  return inputs;
}

std::string text_of(const std::array<std::int32_t, 4>& starts) {
  return std::to_string(starts[1]) + ", " + std::to_string(starts[2] - starts[1]) + ", " +
         std::to_string(starts[3] - starts[2]);
}

bool compare_in_batch_mode(const std::string& kernel) {
  Memory memory;
  const fmhax::Problem problem = problem_of(false);
  const fmhax::CallArguments inputs = inputs_of(problem, memory);
  Side plain(problem, inputs, kernel, memory);
  Side built_in(problem, inputs, {}, memory);
  for (Side* side : {&plain, &built_in}) {
    side->executor.enqueue_forward(side->call, nullptr);
    side->executor.enqueue(side->call, nullptr);
  }
  std::printf("%s\n%s against %s\n", to_string(problem).c_str(), kernel.c_str(),
              built_in.executor.kernel_choice().entry().name);
  return agree("  eager", plain, built_in);
}

bool compare_in_group_mode(const std::string& kernel) {
  Memory memory;
  const fmhax::Problem problem = problem_of(true);
  fmhax::CallArguments inputs = inputs_of(problem, memory);
  auto* starts = reinterpret_cast<std::int32_t*>(memory.allocate(kBatch + 1));
  inputs.lengths.seqstart_q = inputs.lengths.seqstart_k = starts;
  Side plain(problem, inputs, kernel, memory);
  Side built_in(problem, inputs, {}, memory);
  std::printf("%s\n%s against %s\n", to_string(problem).c_str(), kernel.c_str(),
              built_in.executor.kernel_choice().entry().name);

  fmhax::Graph graph(plain.executor, plain.call);
  bool all_agree = true;
  for (const auto& batch : {std::array{0, 100, 128, 192}, std::array{0, 7, 7, 150}, std::array{0, 0, 192, 192}}) {
    std::copy(batch.begin(), batch.end(), starts);
    built_in.executor.enqueue_forward(built_in.call, nullptr);
    built_in.executor.enqueue(built_in.call, nullptr);
    plain.executor.enqueue_forward(plain.call, nullptr);
    plain.executor.enqueue(plain.call, nullptr);
    all_agree &= agree("  eager, lengths " + text_of(batch), plain, built_in);
    for (const auto* view : {&plain.call.dq, &plain.call.dk, &plain.call.dv}) {
      std::fill_n(static_cast<float*>(view->data), view->stride_batch, -1.0F);
    }
    graph.launch(nullptr);
    all_agree &= agree("  graph, lengths " + text_of(batch), plain, built_in);
  }

  // Starts that decrease: no kernel reads out of bounds, the gradients are NaN, and the status says why.
  std::copy_n(std::array{0, 100, 90, 192}.begin(), 4, starts);
  graph.launch(nullptr);
  wait_for_device();
  bool all_nan = true;
  for (const auto* view : {&plain.call.dq, &plain.call.dk, &plain.call.dv}) {
    const auto* data = static_cast<const float*>(view->data);
    all_nan &= std::all_of(data, data + view->stride_batch, [](float x) { return std::isnan(x); });
  }
  std::printf("  graph, starts 0, 100, 90, 192       %s; gradients %s\n", to_string(graph.status()).c_str(),
              all_nan ? "are NaN" : "ARE NOT ALL NaN");
  return all_agree && all_nan && graph.status().code == fmhax::StatusCode::decreasing;
}

}  // namespace

int main() {
  try {
    fmhax::register_kernels(plain::provider());
    const bool batch_agrees = compare_in_batch_mode(plain::provider().name);
    const bool group_agrees = compare_in_group_mode(plain::provider().name);
    std::printf(batch_agrees && group_agrees ? "agreed: every difference is at most %.0e\n" : "FAILED: limit %.0e\n",
                kLimit);
    return batch_agrees && group_agrees ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "outside_provider: %s\n", error.what());
    return 1;
  }
}
