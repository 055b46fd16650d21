#include "gradient_check.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "formulas.hpp"
#include "verification/compare.hpp"
#include "verification/reference.hpp"

namespace fmhax::train {
namespace {

using verification::DenseTensor;

template <class T>
std::vector<T> read_back(const T* device, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  check(hipMemcpy(values.data(), device, values.size() * sizeof(T), hipMemcpyDeviceToHost), "hipMemcpy");
  return values;
}

/// Rows [row][part][head][hdim] of `parts` tensors side by side; one of them.
DenseTensor part_of(const std::vector<float>& rows, std::int64_t parts, std::int64_t part, const Problem& problem) {
  DenseTensor tensor(1, problem.total_q, problem.nhead_q, problem.hdim_q);
  const std::int64_t width = problem.nhead_q * problem.hdim_q;
  for (std::int64_t t = 0; t < problem.total_q; ++t) {
    const auto from = rows.begin() + (t * parts + part) * width;
    std::copy(from, from + width, tensor.row(0, t, 0));
  }
  return tensor;
}

/// lse [head][row] as the reference has it, [row][head].
DenseTensor lse_of(const std::vector<float>& lse, const Problem& problem) {
  DenseTensor tensor(1, problem.total_q, problem.nhead_q, 1);
  for (std::int64_t h = 0; h < problem.nhead_q; ++h) {
    for (std::int64_t t = 0; t < problem.total_q; ++t) {
      *tensor.row(0, t, h) = static_cast<double>(lse[static_cast<std::size_t>(h * problem.total_q + t)]);
    }
  }
  return tensor;
}

AttentionError layer_error(const AttentionTensors& tensors, const Attention& attention,
                           const std::vector<std::int32_t>& starts) {
  const Problem& problem = attention.executor().problem();
  const auto read = [](const DeviceBuffer<float>& buffer) { return read_back(buffer.data(), buffer.count()); };
  // What went in as bf16 is what the gradients are of.
  const auto read_input = [&](const DeviceBuffer<float>& wide, DeviceBuffer<std::uint16_t> NarrowTensors::*member) {
    if (!tensors.narrow) return read(wide);
    const DeviceBuffer<std::uint16_t>& cast = (*tensors.narrow).*member;
    const std::vector<std::uint16_t> bits = read_back(cast.data(), cast.count());
    std::vector<float> values(bits.size());
    std::transform(bits.begin(), bits.end(), values.begin(), widen_bf16);
    return values;
  };
  const std::vector<float> qkv = read_input(tensors.qkv, &NarrowTensors::qkv);
  const std::vector<float> d_qkv = read(tensors.d_qkv);

  verification::AttentionInputs inputs;
  inputs.problem = problem;
  inputs.scale = static_cast<double>(attention.scale());
  inputs.lengths.q.seqstart = starts;
  inputs.lengths.k.seqstart = starts;
  inputs.q = part_of(qkv, 3, 0, problem);
  inputs.k = part_of(qkv, 3, 1, problem);
  inputs.v = part_of(qkv, 3, 2, problem);
  inputs.dout = part_of(read_input(tensors.d_o, &NarrowTensors::d_o), 1, 0, problem);
  const verification::ForwardResult forward{part_of(read(tensors.o), 1, 0, problem),
                                            lse_of(read(tensors.lse), problem)};
  const auto expected = reference_backward(inputs, forward);

  const auto gradient_error = [&](std::int64_t part, const DenseTensor& reference, double terms) {
    return relative_error(part_of(d_qkv, 3, part, problem), reference, terms);
  };
  const double dq = gradient_error(0, expected.gradients.dq, expected.dq_terms);
  const double dk = gradient_error(1, expected.gradients.dk, expected.dk_terms);
  const double dv = gradient_error(2, expected.gradients.dv, expected.dv_terms);
  const double output = relative_error(forward.o, reference_forward(inputs).o, 0.0);
  // The largest of numbers must not hide one that is none.
  if (!std::isfinite(dq + dk + dv + output)) throw std::runtime_error("attention gave values that are not finite");
  return {.gradient = std::max({dq, dk, dv}), .output = output};
}

}  // namespace

AttentionError attention_error(const TrainingStep& step) {
  const Model& model = step.model();
  const auto starts = read_back(step.device_batch().seqstart, step.config().batch.max_documents + 1);
  AttentionError worst;
  for (std::int64_t layer = 0; layer < model.shape().layers; ++layer) {
    const AttentionTensors& tensors = model.attention_tensors(layer);
    const CallStatus status = tensors.status.read();
    if (status.code != StatusCode::ok) throw std::runtime_error("attention refused a batch: " + to_string(status));
    const AttentionError error = layer_error(tensors, model.attention(), starts);
    worst.gradient = std::max(worst.gradient, error.gradient);
    worst.output = std::max(worst.output, error.output);
  }
  return worst;
}

}  // namespace fmhax::train
