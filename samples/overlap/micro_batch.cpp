#include "micro_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "hip_owners.hpp"

namespace fmhax::sample {
namespace {

constexpr std::int64_t kShortest = 16;

/// Sequence starts that cover all tokens but a tail too short for a sequence; the rest of the array repeats the last
/// start, which makes empty sequences.
std::vector<std::int32_t> random_seqstart(const Problem& problem, std::mt19937& random) {
  std::vector<std::int32_t> starts{0};
  std::uniform_int_distribution<std::int64_t> any_length(kShortest, problem.max_seqlen_q);
  while (problem.total_q - starts.back() >= kShortest) {
    const std::int64_t length = std::min(any_length(random), problem.total_q - starts.back());
    starts.push_back(static_cast<std::int32_t>(starts.back() + length));
  }
  starts.resize(static_cast<std::size_t>(problem.batch) + 1, starts.back());
  return starts;
}

}  // namespace

Problem make_problem(std::int64_t tokens, std::int64_t nhead, std::int64_t hdim, std::int64_t max_seqlen) {
  Problem problem;
  problem.dtype = DataType::fp32;
  problem.is_group_mode = true;
  problem.is_deterministic = true;
  problem.batch = tokens / kShortest;
  problem.nhead_q = problem.nhead_k = nhead;
  problem.hdim_q = problem.hdim_v = hdim;
  problem.max_seqlen_q = problem.max_seqlen_k = max_seqlen;
  problem.total_q = problem.total_k = tokens;
  problem.mask = Mask::causal();
  return problem;
}

MicroBatchLayout::MicroBatchLayout(const Problem& problem)
    : problem_(problem),
      tensor_bytes_(sizeof(float) * static_cast<std::size_t>(problem.total_q * problem.nhead_q * problem.hdim_q)),
      rows_bytes_(sizeof(float) * static_cast<std::size_t>(problem.total_q * problem.nhead_q)),
      input_bytes_(5 * tensor_bytes_ + rows_bytes_ +
                   sizeof(std::int32_t) * static_cast<std::size_t>(problem.batch + 1)) {}

CallArguments MicroBatchLayout::arguments(std::byte* inputs, std::byte* outputs, std::byte* d) const {
  const auto tensor = [this](std::byte* block, std::size_t index) {
    return TensorView::thd(block + index * tensor_bytes_, problem_.dtype, problem_.total_q, problem_.nhead_q,
                           problem_.hdim_q);
  };
  const auto rows = [this](std::byte* data) {
    return TensorView::rows_ht(reinterpret_cast<float*>(data), problem_.nhead_q, problem_.total_q);
  };
  CallArguments call;
  call.scale = 1.0F / std::sqrt(static_cast<float>(problem_.hdim_q));
  call.q = tensor(inputs, 0);
  call.k = tensor(inputs, 1);
  call.v = tensor(inputs, 2);
  call.dout = tensor(inputs, 3);
  call.o = tensor(inputs, 4);
  call.lse = rows(inputs + 5 * tensor_bytes_);
  call.lengths.seqstart_q = reinterpret_cast<const std::int32_t*>(inputs + 5 * tensor_bytes_ + rows_bytes_);
  call.lengths.seqstart_k = call.lengths.seqstart_q;
  call.dq = tensor(outputs, 0);
  call.dk = tensor(outputs, 1);
  call.dv = tensor(outputs, 2);
  call.d = rows(d);
  return call;
}

std::vector<std::vector<std::byte>> make_micro_batches(const Executor& executor, const MicroBatchLayout& layout,
                                                       std::size_t count, std::uint32_t seed) {
  const DeviceBytes inputs = make_device_bytes(layout.input_bytes());
  const DeviceBytes outputs = make_device_bytes(layout.output_bytes());
  const DeviceBytes d = make_device_bytes(layout.d_bytes());
  const CallArguments call = layout.arguments(inputs.get(), outputs.get(), d.get());
  const Stream stream = make_stream();

  std::mt19937 random(seed);
  std::uniform_real_distribution<float> any_value(-1.7F, 1.7F);  // variance near 1
  std::vector<std::vector<std::byte>> micro_batches;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::byte>& block = micro_batches.emplace_back(layout.input_bytes_);
    std::vector<float> values(4 * layout.tensor_bytes_ / sizeof(float));
    std::generate(values.begin(), values.end(), [&] { return any_value(random); });
    std::memcpy(block.data(), values.data(), 4 * layout.tensor_bytes_);
    const std::vector<std::int32_t> starts = random_seqstart(executor.problem(), random);
    std::memcpy(block.data() + 5 * layout.tensor_bytes_ + layout.rows_bytes_, starts.data(),
                starts.size() * sizeof(std::int32_t));

    check(hipMemcpy(inputs.get(), block.data(), block.size(), hipMemcpyHostToDevice), "hipMemcpy");
    executor.enqueue_forward(call, stream.get());
    check(hipStreamSynchronize(stream.get()), "hipStreamSynchronize");
    check(hipMemcpy(block.data(), inputs.get(), block.size(), hipMemcpyDeviceToHost), "hipMemcpy");
  }
  return micro_batches;
}

}  // namespace fmhax::sample
