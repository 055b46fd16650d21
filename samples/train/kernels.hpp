/// @file Every kernel of the model but attention: arguments as plain data, and the function that computes them, in
/// host/ for CPU threads (grid() counts its blocks) and in device/ for GPUs. Sums run in a fixed order, so that equal
/// inputs give equal bits on one platform. launch_kernel.hpp, one for each, launches them.
///
/// Matrices are row-major and contiguous. `rows` counts tokens, the capacity included that a batch leaves unused: its
/// rows have no target, hence zero gradients.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

namespace fmhax::train {

inline constexpr std::int64_t kRowTile = 128;              ///< tokens of one block
inline constexpr std::int64_t kColumnTile = 32;            ///< columns of one block, where it visits every token
inline constexpr std::int64_t kElementTile = 16 * 1024;    ///< elements of one block, where it casts
inline constexpr std::int64_t kParameterTile = 16 * 1024;  ///< parameters of one block of the optimiser

inline dim3 tiles(std::int64_t size, std::int64_t tile) {
  return dim3{static_cast<std::uint32_t>((size + tile - 1) / tile), 1, 1};
}

// ---- embedding ------------------------------------------------------------------------------------------------------

/// x[t] = token_table[tokens[t]] + position_table[positions[t]]
struct EmbeddingForward {
  const std::int32_t* tokens;
  const std::int32_t* positions;
  const float* token_table;     ///< [vocabulary, width]
  const float* position_table;  ///< [longest document, width]
  float* x;                     ///< [rows, width]
  std::int64_t rows, width;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void embedding_forward(EmbeddingForward p);

/// Adds dx to the gradient of the token table (the head, which shares the table, has written its part before) and
/// overwrites the gradient of the position table.
struct EmbeddingBackward {
  const std::int32_t* tokens;
  const std::int32_t* positions;
  const float* dx;          ///< [rows, width]
  float* d_token_table;     ///< [vocabulary, width]
  float* d_position_table;  ///< [longest, width]
  std::int64_t rows, width, longest;
  dim3 grid() const { return tiles(width, kColumnTile); }
};
__global__ void embedding_backward(EmbeddingBackward p);

// ---- linear layers --------------------------------------------------------------------------------------------------

/// y = x * w, or x * w^T where w_is_transposed: then w is [outputs, inputs].
struct LinearForward {
  const float* x;  ///< [rows, inputs]
  const float* w;  ///< [inputs, outputs]
  float* y;        ///< [rows, outputs]
  std::int64_t rows, inputs, outputs;
  bool w_is_transposed = false;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void linear_forward(LinearForward p);

/// dw = a^T * b, both [rows, ...]: with a = x, b = dy the gradient of w in y = x * w.
struct LinearWeightGradient {
  const float* a;  ///< [rows, a_width]
  const float* b;  ///< [rows, b_width]
  float* dw;       ///< [a_width, b_width]
  std::int64_t rows, a_width, b_width;
  dim3 grid() const { return tiles(a_width, kColumnTile); }
};
__global__ void linear_weight_gradient(LinearWeightGradient p);

// ---- residual stream and RMS norm -----------------------------------------------------------------------------------

/// stream_out = stream_in + branch (a branch of null adds nothing, and stream_out may be null then);
/// inverse_rms = 1 / sqrt(mean(stream_out^2) + epsilon); y = stream_out * inverse_rms * gain.
struct ResidualNormForward {
  const float* stream_in;  ///< [rows, width]
  const float* branch;     ///< [rows, width] or null
  const float* gain;       ///< [width]
  float* stream_out;       ///< [rows, width]
  float* inverse_rms;      ///< [rows]
  float* y;                ///< [rows, width]
  std::int64_t rows, width;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void residual_norm_forward(ResidualNormForward p);

/// Adds the norm's part to the gradient of the residual stream, or is the first to write it.
struct NormBackward {
  const float* stream;  ///< what the norm read
  const float* inverse_rms;
  const float* gain;
  const float* dy;
  float* d_stream;
  std::int64_t rows, width;
  bool accumulates = true;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void norm_backward(NormBackward p);

/// d_gain[c] = sum over tokens of dy * stream * inverse_rms.
struct NormGainGradient {
  const float* stream;
  const float* inverse_rms;
  const float* dy;
  float* d_gain;
  std::int64_t rows, width;
  dim3 grid() const { return tiles(width, kColumnTile); }
};
__global__ void norm_gain_gradient(NormGainGradient p);

// ---- GELU -----------------------------------------------------------------------------------------------------------

/// y = gelu(x), the tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
struct GeluForward {
  const float* x;  ///< [rows, width]
  float* y;
  std::int64_t rows, width;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void gelu_forward(GeluForward p);

/// d = d * gelu'(x), in place.
struct GeluBackward {
  const float* x;
  float* d;
  std::int64_t rows, width;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void gelu_backward(GeluBackward p);

// ---- 16-bit attention -----------------------------------------------------------------------------------------------

/// to = from as bf16, to nearest, ties to even.
struct Narrow {
  const float* from;
  std::uint16_t* to;
  std::int64_t count;
  dim3 grid() const { return tiles(count, kElementTile); }
};
__global__ void narrow(Narrow p);

/// to = from as fp32.
struct Widen {
  const std::uint16_t* from;
  float* to;
  std::int64_t count;
  dim3 grid() const { return tiles(count, kElementTile); }
};
__global__ void widen(Widen p);

// ---- cross-entropy --------------------------------------------------------------------------------------------------

inline constexpr std::int32_t kNoTarget = -1;

/// row_loss[t] = -log softmax(logits[t])[targets[t]], 0 without a target; logits become the gradient of the mean loss:
/// (softmax - onehot) / target_count, 0 without a target.
struct CrossEntropy {
  float* logits;  ///< [rows, vocabulary], in place
  const std::int32_t* targets;
  const std::int32_t* target_count;  ///< one number, at least 1
  float* row_loss;                   ///< [rows]
  std::int64_t rows, vocabulary;
  dim3 grid() const { return tiles(rows, kRowTile); }
};
__global__ void cross_entropy(CrossEntropy p);

// ---- optimiser ------------------------------------------------------------------------------------------------------

struct AdamWSettings {
  float learning_rate = 3e-3F;  ///< the peak, reached after warmup_steps
  float final_fraction = 0.1F;  ///< of the peak, reached by a half cosine at total_steps
  float beta1 = 0.9F;
  float beta2 = 0.98F;
  float epsilon = 1e-8F;
  float weight_decay = 0.05F;  ///< times the learning rate; for matrices, not for gains
  float clip_norm = 1.0F;      ///< gradients longer than this are scaled down to it
  std::int64_t warmup_steps = 20;
  std::int64_t total_steps = 600;
};

/// What changes from step to step. It lives in device memory, because a captured launch repeats its arguments.
struct OptimizerState {
  std::int64_t step = 0;  ///< steps begun so far
  float learning_rate = 0;
  float first_correction = 1;   ///< 1 / (1 - beta1^step)
  float second_correction = 1;  ///< 1 / (1 - beta2^step)
  float gradient_scale = 1;     ///< from clipping
  float gradient_norm = 0;      ///< before clipping
};

/// What a step reports to the host.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  float loss = 0;         ///< mean over the step's targets
  float learning_rate = 0;
  float gradient_norm = 0;
  std::int32_t target_count = 0;
};

/// partial[block] = sum of squares of one tile of the gradients.
struct GradientNorm {
  const float* gradients;
  double* partial;
  std::int64_t count;
  dim3 grid() const { return tiles(count, kParameterTile); }
};
__global__ void gradient_norm(GradientNorm p);

/// One block: begins the step (number, learning rate, clipping) and writes its record.
struct BeginUpdate {
  AdamWSettings settings;
  const double* partial;  ///< [partial_count], from gradient_norm
  std::int64_t partial_count;
  const float* row_loss;  ///< [rows]
  std::int64_t rows;
  const std::int32_t* target_count;
  OptimizerState* state;
  StepRecord* record;
  dim3 grid() const { return dim3{1, 1, 1}; }
};
__global__ void begin_update(BeginUpdate p);

/// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2) over all parameters at once.
struct AdamW {
  AdamWSettings settings;
  const OptimizerState* state;
  const float* gradients;
  float* parameters;
  float* first_moment;
  float* second_moment;
  std::int64_t count;
  std::int64_t decayed_count;  ///< parameters before this one decay
  dim3 grid() const { return tiles(count, kParameterTile); }
};
__global__ void adamw(AdamW p);

}  // namespace fmhax::train
