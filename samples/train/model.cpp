#include "model.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "kernels.hpp"
#include "launch_kernel.hpp"

namespace fmhax::train {
namespace {

ModelShape checked(const ModelShape& shape) {
  if (shape.layers < 1) throw std::invalid_argument(fmt::format("layers {}: at least 1 is needed", shape.layers));
  if (shape.heads < 1 || shape.width % shape.heads != 0 || shape.hdim() % 8 != 0) {
    throw std::invalid_argument(
        fmt::format("width {} with {} heads: each head needs a multiple of 8 of the width", shape.width, shape.heads));
  }
  return shape;
}

}  // namespace

Model::Activations::Activations(const ModelShape& shape, std::int64_t rows)
    : attention_input(rows * shape.width),
      attention_norm(rows * shape.width),
      attention_inverse_rms(rows),
      attention(rows, shape.heads, shape.hdim(), shape.attention_dtype),
      mlp_input(rows * shape.width),
      mlp_norm(rows * shape.width),
      mlp_inverse_rms(rows),
      up(rows * shape.mlp_width()),
      activated(rows * shape.mlp_width()) {}

Model::Model(const ModelShape& shape, const BatchShape& batch_shape, std::uint64_t seed)
    : shape_(checked(shape)),
      batch_shape_(batch_shape),
      layout_(shape, batch_shape.longest),
      parameters_(layout_.count),
      gradients_(layout_.count),
      attention_(batch_shape, shape.heads, shape.hdim(), shape.attention_dtype),
      final_input_(batch_shape.tokens * shape.width),
      final_norm_(batch_shape.tokens * shape.width),
      final_inverse_rms_(batch_shape.tokens),
      logits_(batch_shape.tokens * kVocabulary),
      row_loss_(batch_shape.tokens),
      branch_(batch_shape.tokens * shape.width),
      d_stream_(batch_shape.tokens * shape.width),
      d_norm_(batch_shape.tokens * shape.width),
      d_up_(batch_shape.tokens * shape.mlp_width()) {
  activations_.reserve(static_cast<std::size_t>(shape.layers));
  for (std::int64_t i = 0; i < shape.layers; ++i) activations_.emplace_back(shape, batch_shape.tokens);
  upload(parameters_.data(), layout_.initial_values(seed));
}

// ---- forward --------------------------------------------------------------------------------------------------------

void Model::enqueue_norm(const float* stream_in, const float* branch, const Span& gain,
                         const DeviceBuffer<float>& stream_out, const DeviceBuffer<float>& inverse_rms,
                         const DeviceBuffer<float>& y, hipStream_t stream) const {
  launch(residual_norm_forward,
         {.stream_in = stream_in,
          .branch = branch,
          .gain = parameter(gain),
          .stream_out = stream_out.data(),
          .inverse_rms = inverse_rms.data(),
          .y = y.data(),
          .rows = batch_shape_.tokens,
          .width = shape_.width},
         stream);
}

void Model::enqueue_linear(const float* x, const Span& w, float* y, hipStream_t stream) const {
  launch(linear_forward,
         {.x = x, .w = parameter(w), .y = y, .rows = batch_shape_.tokens, .inputs = w.rows, .outputs = w.columns},
         stream);
}

void Model::enqueue_forward(const BatchView& batch, hipStream_t stream) const {
  launch(embedding_forward,
         {.tokens = batch.tokens,
          .positions = batch.positions,
          .token_table = parameter(layout_.token_table),
          .position_table = parameter(layout_.position_table),
          .x = activations_.front().attention_input.data(),
          .rows = batch_shape_.tokens,
          .width = shape_.width},
         stream);

  const float* residual = activations_.front().attention_input.data();
  const float* branch = nullptr;
  for (std::size_t i = 0; i < activations_.size(); ++i) {
    const Activations& a = activations_[i];
    const ParameterLayout::Layer& p = layout_.layers[i];
    enqueue_norm(residual, branch, p.attention_gain, a.attention_input, a.attention_inverse_rms, a.attention_norm,
                 stream);
    enqueue_linear(a.attention_norm.data(), p.qkv, a.attention.qkv.data(), stream);
    attention_.enqueue_forward(a.attention, batch.seqstart, stream);
    enqueue_linear(a.attention.o.data(), p.attention_out, branch_.data(), stream);

    enqueue_norm(a.attention_input.data(), branch_.data(), p.mlp_gain, a.mlp_input, a.mlp_inverse_rms, a.mlp_norm,
                 stream);
    enqueue_linear(a.mlp_norm.data(), p.up, a.up.data(), stream);
    launch(gelu_forward,
           {.x = a.up.data(), .y = a.activated.data(), .rows = batch_shape_.tokens, .width = shape_.mlp_width()},
           stream);
    enqueue_linear(a.activated.data(), p.down, branch_.data(), stream);
    residual = a.mlp_input.data();
    branch = branch_.data();
  }
  enqueue_norm(residual, branch, layout_.final_gain, final_input_, final_inverse_rms_, final_norm_, stream);
  launch(linear_forward,
         {.x = final_norm_.data(),
          .w = parameter(layout_.token_table),
          .y = logits_.data(),
          .rows = batch_shape_.tokens,
          .inputs = shape_.width,
          .outputs = kVocabulary,
          .w_is_transposed = true},
         stream);
}

// ---- backward -------------------------------------------------------------------------------------------------------

void Model::enqueue_linear_backward(const float* x, const Span& w, const float* dy, float* dx,
                                    hipStream_t stream) const {
  launch(linear_weight_gradient,
         {.a = x, .b = dy, .dw = gradient(w), .rows = batch_shape_.tokens, .a_width = w.rows, .b_width = w.columns},
         stream);
  launch(linear_forward,
         {.x = dy,
          .w = parameter(w),
          .y = dx,
          .rows = batch_shape_.tokens,
          .inputs = w.columns,
          .outputs = w.rows,
          .w_is_transposed = true},
         stream);
}

void Model::enqueue_norm_backward(const DeviceBuffer<float>& input, const DeviceBuffer<float>& inverse_rms,
                                  const Span& gain, bool accumulates, hipStream_t stream) const {
  launch(norm_gain_gradient,
         {.stream = input.data(),
          .inverse_rms = inverse_rms.data(),
          .dy = d_norm_.data(),
          .d_gain = gradient(gain),
          .rows = batch_shape_.tokens,
          .width = shape_.width},
         stream);
  launch(norm_backward,
         {.stream = input.data(),
          .inverse_rms = inverse_rms.data(),
          .gain = parameter(gain),
          .dy = d_norm_.data(),
          .d_stream = d_stream_.data(),
          .rows = batch_shape_.tokens,
          .width = shape_.width,
          .accumulates = accumulates},
         stream);
}

void Model::enqueue_layer_backward(std::size_t layer, const BatchView& batch, hipStream_t stream) const {
  const Activations& a = activations_[layer];
  const ParameterLayout::Layer& p = layout_.layers[layer];

  // MLP: d_stream is the gradient of what the branch added, and of what went past it.
  enqueue_linear_backward(a.activated.data(), p.down, d_stream_.data(), d_up_.data(), stream);
  launch(gelu_backward, {.x = a.up.data(), .d = d_up_.data(), .rows = batch_shape_.tokens, .width = shape_.mlp_width()},
         stream);
  enqueue_linear_backward(a.mlp_norm.data(), p.up, d_up_.data(), d_norm_.data(), stream);
  enqueue_norm_backward(a.mlp_input, a.mlp_inverse_rms, p.mlp_gain, true, stream);

  // Attention.
  enqueue_linear_backward(a.attention.o.data(), p.attention_out, d_stream_.data(), a.attention.d_o.data(), stream);
  attention_.enqueue_backward(a.attention, batch.seqstart, stream);
  enqueue_linear_backward(a.attention_norm.data(), p.qkv, a.attention.d_qkv.data(), d_norm_.data(), stream);
  enqueue_norm_backward(a.attention_input, a.attention_inverse_rms, p.attention_gain, true, stream);
}

void Model::enqueue_backward(const BatchView& batch, hipStream_t stream) const {
  launch(cross_entropy,
         {.logits = logits_.data(),
          .targets = batch.targets,
          .target_count = batch.target_count,
          .row_loss = row_loss_.data(),
          .rows = batch_shape_.tokens,
          .vocabulary = kVocabulary},
         stream);
  const float* d_logits = logits_.data();
  launch(linear_weight_gradient,
         {.a = d_logits,
          .b = final_norm_.data(),
          .dw = gradient(layout_.token_table),
          .rows = batch_shape_.tokens,
          .a_width = kVocabulary,
          .b_width = shape_.width},
         stream);
  launch(linear_forward,
         {.x = d_logits,
          .w = parameter(layout_.token_table),
          .y = d_norm_.data(),
          .rows = batch_shape_.tokens,
          .inputs = kVocabulary,
          .outputs = shape_.width},
         stream);
  enqueue_norm_backward(final_input_, final_inverse_rms_, layout_.final_gain, false, stream);
  for (std::size_t i = activations_.size(); i-- > 0;) enqueue_layer_backward(i, batch, stream);
  launch(embedding_backward,
         {.tokens = batch.tokens,
          .positions = batch.positions,
          .dx = d_stream_.data(),
          .d_token_table = gradient(layout_.token_table),
          .d_position_table = gradient(layout_.position_table),
          .rows = batch_shape_.tokens,
          .width = shape_.width,
          .longest = batch_shape_.longest},
         stream);
}

}  // namespace fmhax::train
