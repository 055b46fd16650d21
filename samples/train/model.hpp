/// @file The language model: its shape, parameters, activations, and the order of its kernels.
///
/// Pre-norm transformer over bytes:  x = token + position;  each layer: x += out(attention(qkv(norm(x)))),
/// x += down(gelu(up(norm(x))));  logits = norm(x) * token_table^T.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <vector>

#include "attention.hpp"
#include "hip_objects.hpp"
#include "loader.hpp"

namespace fmhax::train {

struct ModelShape {
  std::int64_t layers = 3;
  std::int64_t width = 96;
  std::int64_t heads = 4;
  DataType attention_dtype = DataType::fp32;  ///< or bf16: attention's tensors are cast before and after
  std::int64_t hdim() const { return width / heads; }
  std::int64_t mlp_width() const { return 4 * width; }
};

/// Where one matrix, or one vector (rows = 1), lies in the flat buffers of parameters and gradients.
struct Span {
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t count() const { return rows * columns; }
};

/// All parameters in one buffer, so that one launch updates them: first the matrices, which decay, then the gains.
struct ParameterLayout {
  struct Layer {
    Span qkv, attention_out, up, down;  ///< [inputs, outputs]
    Span attention_gain, mlp_gain;
  };

  ParameterLayout(const ModelShape& shape, std::int64_t longest);

  Span token_table, position_table;
  std::vector<Layer> layers;
  Span final_gain;
  std::int64_t decayed_count = 0;
  std::int64_t count = 0;

  /// Normal with a standard deviation of 1 / sqrt(inputs), for the embeddings of 1 / sqrt(width); a fifth of that and
  /// less in deeper models for what adds to the residual stream, lest it drown the embeddings; gains are 1. Depends on
  /// the seed alone.
  std::vector<float> initial_values(std::uint64_t seed) const;
};

/// The model on the device. Enqueues, never waits.
class Model {
 public:
  Model(const ModelShape& shape, const BatchShape& batch_shape, std::uint64_t seed);

  /// Logits of a batch in device memory.
  void enqueue_forward(const BatchView& batch, hipStream_t stream) const;
  /// From the logits: the loss of every row, and the gradient of the mean loss for every parameter.
  void enqueue_backward(const BatchView& batch, hipStream_t stream) const;

  const ModelShape& shape() const noexcept { return shape_; }
  const ParameterLayout& layout() const noexcept { return layout_; }
  const DeviceBuffer<float>& parameters() const noexcept { return parameters_; }
  const DeviceBuffer<float>& gradients() const noexcept { return gradients_; }
  const DeviceBuffer<float>& row_loss() const noexcept { return row_loss_; }
  const Attention& attention() const noexcept { return attention_; }
  const AttentionTensors& attention_tensors(std::int64_t layer) const {
    return activations_[static_cast<std::size_t>(layer)].attention;
  }

 private:
  /// What the backward pass of one layer needs of its forward pass.
  struct Activations {
    Activations(const ModelShape& shape, std::int64_t rows);
    DeviceBuffer<float> attention_input, attention_norm, attention_inverse_rms;
    AttentionTensors attention;
    DeviceBuffer<float> mlp_input, mlp_norm, mlp_inverse_rms;
    DeviceBuffer<float> up, activated;
  };

  float* parameter(const Span& span) const { return parameters_.data() + span.offset; }
  float* gradient(const Span& span) const { return gradients_.data() + span.offset; }

  void enqueue_norm(const float* stream_in, const float* branch, const Span& gain,
                    const DeviceBuffer<float>& stream_out, const DeviceBuffer<float>& inverse_rms,
                    const DeviceBuffer<float>& y, hipStream_t stream) const;
  void enqueue_norm_backward(const DeviceBuffer<float>& input, const DeviceBuffer<float>& inverse_rms, const Span& gain,
                             bool accumulates, hipStream_t stream) const;
  void enqueue_linear(const float* x, const Span& w, float* y, hipStream_t stream) const;
  void enqueue_linear_backward(const float* x, const Span& w, const float* dy, float* dx, hipStream_t stream) const;
  void enqueue_layer_backward(std::size_t layer, const BatchView& batch, hipStream_t stream) const;

  ModelShape shape_;
  BatchShape batch_shape_;
  ParameterLayout layout_;
  DeviceBuffer<float> parameters_, gradients_;
  Attention attention_;
  std::vector<Activations> activations_;
  DeviceBuffer<float> final_input_, final_norm_, final_inverse_rms_;
  DeviceBuffer<float> logits_, row_loss_;
  DeviceBuffer<float> branch_;                    ///< a layer's addition to the residual stream
  DeviceBuffer<float> d_stream_, d_norm_, d_up_;  ///< gradients on their way back
};

}  // namespace fmhax::train
