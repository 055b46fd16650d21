#include "gradient_check.hpp"

#include <algorithm>
#include <stdexcept>

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

double layer_error(const AttentionTensors& tensors, const Attention& attention,
                   const std::vector<std::int32_t>& starts) {
  const Problem& problem = attention.executor().problem();
  const std::vector<float> qkv = read_back(tensors.qkv.data(), tensors.qkv.count());
  const std::vector<float> d_o = read_back(tensors.d_o.data(), tensors.d_o.count());
  const std::vector<float> d_qkv = read_back(tensors.d_qkv.data(), tensors.d_qkv.count());

  verification::AttentionInputs inputs;
  inputs.problem = problem;
  inputs.scale = attention.scale();
  inputs.lengths.q.seqstart = starts;
  inputs.lengths.k.seqstart = starts;
  inputs.q = part_of(qkv, 3, 0, problem);
  inputs.k = part_of(qkv, 3, 1, problem);
  inputs.v = part_of(qkv, 3, 2, problem);
  inputs.dout = part_of(d_o, 1, 0, problem);
  const auto expected = reference_backward(inputs, reference_forward(inputs));

  const auto error = [&](std::int64_t part, const DenseTensor& reference, double terms) {
    return relative_error(part_of(d_qkv, 3, part, problem), reference, terms);
  };
  return std::max({error(0, expected.gradients.dq, expected.dq_terms),
                   error(1, expected.gradients.dk, expected.dk_terms),
                   error(2, expected.gradients.dv, expected.dv_terms)});
}

}  // namespace

double attention_gradient_error(const TrainingStep& step) {
  const Model& model = step.model();
  const auto starts = read_back(step.device_batch().seqstart, step.config().batch.max_documents + 1);
  double worst = 0;
  for (std::int64_t layer = 0; layer < model.shape().layers; ++layer) {
    const AttentionTensors& tensors = model.attention_tensors(layer);
    const CallStatus status = tensors.status.read();
    if (status.code != StatusCode::ok) throw std::runtime_error("attention refused a batch: " + to_string(status));
    worst = std::max(worst, layer_error(tensors, model.attention(), starts));
  }
  return worst;
}

}  // namespace fmhax::train
