// The gradients of attention over packed sequences: one graph, built once, replayed with other sequences.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "fmhax/fmhax.hpp"

int main() {
  // What is computed, and the most that one call may bring: 3 sequences, 192 tokens between them.
  constexpr std::int64_t kTokens = 192, kHeads = 4, kHdim = 64;
  fmhax::Problem problem;
  problem.dtype = fmhax::DataType::fp32;
  problem.is_group_mode = problem.is_deterministic = true;
  problem.batch = 3;
  problem.nhead_q = problem.nhead_k = kHeads;
  problem.hdim_q = problem.hdim_v = kHdim;
  problem.max_seqlen_q = problem.max_seqlen_k = problem.total_q = problem.total_k = kTokens;
  problem.mask = fmhax::Mask::causal();
  const fmhax::Executor executor(problem);

  // Memory that host and device both see, filled with numbers between -1 and 1.
  std::minstd_rand random(1);
  std::vector<std::shared_ptr<float>> memory;
  const auto allocate = [&](std::int64_t count) {
    float* data = nullptr;
    if (hipMallocManaged(&data, static_cast<std::size_t>(count) * 4) != hipSuccess) throw std::bad_alloc();
    memory.emplace_back(data, [](float* allocated) { (void)hipFree(allocated); });
    std::generate_n(data, count, [&] { return static_cast<float>(random() % 2001) / 1000 - 1; });
    return data;
  };
  fmhax::CallArguments call;
  call.scale = 0.125F;
  for (auto* view : {&call.q, &call.k, &call.v, &call.o, &call.dout, &call.dq, &call.dk, &call.dv})
    *view = fmhax::TensorView::thd(allocate(kTokens * kHeads * kHdim), problem.dtype, kTokens, kHeads, kHdim);
  for (auto* view : {&call.lse, &call.d})
    *view = fmhax::TensorView::rows_ht(allocate(kHeads * kTokens), kHeads, kTokens);
  auto* starts = reinterpret_cast<std::int32_t*>(allocate(4));
  call.lengths.seqstart_q = call.lengths.seqstart_k = starts;

  // Metadata, zeroing and kernels as one graph; what changes between replays is read from device memory.
  fmhax::Graph backward(executor, call);
  for (const auto& lengths : {std::array{0, 100, 28, 64}, std::array{0, 7, 0, 143}}) {
    std::partial_sum(lengths.begin(), lengths.end(), starts);
    executor.enqueue_forward(call, nullptr);
    backward.launch(nullptr);
    if (hipDeviceSynchronize() != hipSuccess) return 1;
    std::printf("%d, %d and %d tokens, |dq| |dk| |dv| =", lengths[1], lengths[2], lengths[3]);
    for (const auto* view : {&call.dq, &call.dk, &call.dv}) {
      const auto* x = static_cast<const float*>(view->data);
      std::printf(" %.4f", std::sqrt(std::inner_product(x, x + view->stride_batch, x, 0.0)));
    }
    std::printf(", status: %s\n", to_string(backward.status()).c_str());
  }
}
