/// @file Attention within each document of a packed batch, by fmhax.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <optional>

#include <fmhax/fmhax.hpp>

#include "hip_objects.hpp"
#include "loader.hpp"

namespace fmhax::train {

/// What 16-bit attention reads and writes in place of the fp32 tensors of the same names.
struct NarrowTensors {
  NarrowTensors(std::int64_t rows, std::int64_t width);
  DeviceBuffer<std::uint16_t> qkv, o, d_o, d_qkv;
};

/// One layer's tensors. q, k and v of a token lie side by side in one row, as the linear layer before writes them.
struct AttentionTensors {
  AttentionTensors(std::int64_t rows, std::int64_t heads, std::int64_t hdim, DataType dtype);
  DeviceBuffer<float> qkv;              ///< [rows, 3, heads, hdim]
  DeviceBuffer<float> o;                ///< [rows, heads, hdim]
  DeviceBuffer<float> lse;              ///< [heads, rows]
  DeviceBuffer<float> d_o;              ///< as o
  DeviceBuffer<float> d_qkv;            ///< as qkv
  std::optional<NarrowTensors> narrow;  ///< with bf16
  StatusBuffer status;
};

/// fp32 where a kernel of the current device takes it, else bf16.
DataType default_attention_dtype();

/// One plan and one workspace for all layers: their calls follow one another on one stream.
class Attention {
 public:
  Attention(const BatchShape& shape, std::int64_t heads, std::int64_t hdim, DataType dtype);

  /// o and lse from qkv.
  void enqueue_forward(const AttentionTensors& tensors, const std::int32_t* seqstart, hipStream_t stream) const;
  /// d_qkv from d_o and what the forward pass left. While the stream is capturing this becomes part of the graph.
  void enqueue_backward(const AttentionTensors& tensors, const std::int32_t* seqstart, hipStream_t stream) const;

  const Executor& executor() const noexcept { return executor_; }
  float scale() const noexcept { return scale_; }

 private:
  CallArguments arguments(const AttentionTensors& tensors, const std::int32_t* seqstart) const;

  Executor executor_;
  float scale_;
  DeviceBuffer<unsigned char> workspace_;
  DeviceBuffer<float> d_;  ///< [heads, rows], rowsum(d_o * o)
};

}  // namespace fmhax::train
