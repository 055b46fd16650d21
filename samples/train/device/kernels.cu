// The model's kernels for GPUs, written for reading: attention is fmhax's affair, and beside it a small model's other
// layers need no tuning. Blocks and threads take rows or elements in turns; sums run in a fixed order.
#include "formulas.hpp"
#include "kernels.hpp"
#include "launch_kernel.hpp"

namespace fmhax::train {
namespace {

constexpr int kTile = 16;  // a block's threads make one tile of a product at a time
static_assert(kTile * kTile == kThreads);

__device__ std::int64_t first_element() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::int64_t element_step() { return static_cast<std::int64_t>(gridDim.x) * kThreads; }

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// All threads' values combined, for every thread of the block. Called by all of them.
template <class T, class Combine>
__device__ T combine_in_block(T value, Combine combine) {
  __shared__ T values[kThreads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  const T result = values[0];
  __syncthreads();
  return result;
}

/// A matrix of any layout: element (i, j) is at data[i * row_step + j * column_step].
struct MatrixView {
  const float* data;
  std::int64_t row_step, column_step;
  __device__ float at(std::int64_t i, std::int64_t j) const { return data[i * row_step + j * column_step]; }
};

/// c = a * b, c row-major [rows, columns].
__device__ void multiply(MatrixView a, MatrixView b, float* c, std::int64_t rows, std::int64_t inner,
                         std::int64_t columns) {
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t column_tiles = (columns + kTile - 1) / kTile;
  const std::int64_t tile_count = (rows + kTile - 1) / kTile * column_tiles;
  for (std::int64_t tile = blockIdx.x; tile < tile_count; tile += gridDim.x) {
    const std::int64_t i = tile / column_tiles * kTile + y;
    const std::int64_t j = tile % column_tiles * kTile + x;
    float sum = 0;
    for (std::int64_t k0 = 0; k0 < inner; k0 += kTile) {
      a_tile[y][x] = i < rows && k0 + x < inner ? a.at(i, k0 + x) : 0.0F;
      b_tile[y][x] = k0 + y < inner && j < columns ? b.at(k0 + y, j) : 0.0F;
      __syncthreads();
      for (int k = 0; k < kTile; ++k) sum += a_tile[y][k] * b_tile[k][x];
      __syncthreads();
    }
    if (i < rows && j < columns) c[i * columns + j] = sum;
  }
}

}  // namespace

// ---- embedding ------------------------------------------------------------------------------------------------------

__global__ void embedding_forward(EmbeddingForward p) {
  for (std::int64_t i = first_element(); i < p.rows * p.width; i += element_step()) {
    const std::int64_t t = i / p.width;
    const std::int64_t c = i % p.width;
    p.x[i] = p.token_table[p.tokens[t] * p.width + c] + p.position_table[p.positions[t] * p.width + c];
  }
}

__global__ void embedding_backward(EmbeddingBackward p) {
  // One block for a column of both tables; a thread owns the entries of the tables that are its number modulo the
  // threads, and visits all tokens in order: no two threads add to one element.
  for (std::int64_t c = blockIdx.x; c < p.width; c += gridDim.x) {
    for (std::int64_t i = threadIdx.x; i < p.longest; i += kThreads) p.d_position_table[i * p.width + c] = 0;
    for (std::int64_t t = 0; t < p.rows; ++t) {
      const float dx = p.dx[t * p.width + c];
      if (p.tokens[t] % kThreads == threadIdx.x) p.d_token_table[p.tokens[t] * p.width + c] += dx;
      if (p.positions[t] % kThreads == threadIdx.x) p.d_position_table[p.positions[t] * p.width + c] += dx;
    }
  }
}

// ---- linear layers --------------------------------------------------------------------------------------------------

__global__ void linear_forward(LinearForward p) {
  const MatrixView w{p.w, p.w_is_transposed ? 1 : p.outputs, p.w_is_transposed ? p.inputs : 1};
  multiply({p.x, p.inputs, 1}, w, p.y, p.rows, p.inputs, p.outputs);
}

__global__ void linear_weight_gradient(LinearWeightGradient p) {
  multiply({p.a, 1, p.a_width}, {p.b, p.b_width, 1}, p.dw, p.a_width, p.rows, p.b_width);
}

// ---- residual stream and RMS norm -----------------------------------------------------------------------------------

__global__ void residual_norm_forward(ResidualNormForward p) {
  for (std::int64_t t = blockIdx.x; t < p.rows; t += gridDim.x) {
    const std::int64_t row = t * p.width;
    float squares = 0;
    for (std::int64_t c = threadIdx.x; c < p.width; c += kThreads) {
      float x = p.stream_in[row + c];
      if (p.branch != nullptr) p.stream_out[row + c] = x = x + p.branch[row + c];
      squares += x * x;
    }
    const float mean = combine_in_block(squares, Sum{}) / static_cast<float>(p.width);
    const float inverse_rms = 1.0F / sqrtf(mean + kNormEpsilon);
    if (threadIdx.x == 0) p.inverse_rms[t] = inverse_rms;
    const float* stream = p.branch != nullptr ? p.stream_out : p.stream_in;
    for (std::int64_t c = threadIdx.x; c < p.width; c += kThreads) {
      p.y[row + c] = stream[row + c] * inverse_rms * p.gain[c];
    }
  }
}

__global__ void norm_backward(NormBackward p) {
  // With r the inverse RMS and n the width: dx = r * (g dy) - x * r^3 / n * sum(x g dy).
  for (std::int64_t t = blockIdx.x; t < p.rows; t += gridDim.x) {
    const std::int64_t row = t * p.width;
    float products = 0;
    for (std::int64_t c = threadIdx.x; c < p.width; c += kThreads) {
      products += p.stream[row + c] * p.gain[c] * p.dy[row + c];
    }
    const float r = p.inverse_rms[t];
    const float along = combine_in_block(products, Sum{}) / static_cast<float>(p.width) * r * r * r;
    for (std::int64_t c = threadIdx.x; c < p.width; c += kThreads) {
      const float dx = r * p.gain[c] * p.dy[row + c] - along * p.stream[row + c];
      p.d_stream[row + c] = p.accumulates ? p.d_stream[row + c] + dx : dx;
    }
  }
}

__global__ void norm_gain_gradient(NormGainGradient p) {
  for (std::int64_t c = blockIdx.x; c < p.width; c += gridDim.x) {
    float sum = 0;
    for (std::int64_t t = threadIdx.x; t < p.rows; t += kThreads) {
      sum += p.dy[t * p.width + c] * p.stream[t * p.width + c] * p.inverse_rms[t];
    }
    sum = combine_in_block(sum, Sum{});
    if (threadIdx.x == 0) p.d_gain[c] = sum;
  }
}

// ---- GELU -----------------------------------------------------------------------------------------------------------

__global__ void gelu_forward(GeluForward p) {
  for (std::int64_t i = first_element(); i < p.rows * p.width; i += element_step()) {
    const float x = p.x[i];
    p.y[i] = 0.5F * x * (1.0F + tanhf(kRootTwoOverPi * x * (1.0F + kGeluCubic * x * x)));
  }
}

__global__ void gelu_backward(GeluBackward p) {
  for (std::int64_t i = first_element(); i < p.rows * p.width; i += element_step()) {
    const float x = p.x[i];
    const float tanh_u = tanhf(kRootTwoOverPi * x * (1.0F + kGeluCubic * x * x));
    p.d[i] *= 0.5F * (1.0F + tanh_u) +
              0.5F * x * (1.0F - tanh_u * tanh_u) * (kRootTwoOverPi * (1.0F + 3.0F * kGeluCubic * x * x));
  }
}

// ---- 16-bit attention -----------------------------------------------------------------------------------------------

__global__ void narrow(Narrow p) {
  for (std::int64_t i = first_element(); i < p.count; i += element_step()) p.to[i] = narrow_bf16(p.from[i]);
}

__global__ void widen(Widen p) {
  for (std::int64_t i = first_element(); i < p.count; i += element_step()) p.to[i] = widen_bf16(p.from[i]);
}

// ---- cross-entropy --------------------------------------------------------------------------------------------------

__global__ void cross_entropy(CrossEntropy p) {
  const float share = 1.0F / static_cast<float>(*p.target_count);
  for (std::int64_t t = blockIdx.x; t < p.rows; t += gridDim.x) {
    float* logits = p.logits + t * p.vocabulary;
    const std::int32_t target = p.targets[t];
    float largest = -INFINITY;
    for (std::int64_t c = threadIdx.x; c < p.vocabulary; c += kThreads) largest = fmaxf(largest, logits[c]);
    largest = combine_in_block(largest, Largest{});
    float sum = 0;
    for (std::int64_t c = threadIdx.x; c < p.vocabulary; c += kThreads) sum += expf(logits[c] - largest);
    sum = combine_in_block(sum, Sum{});
    if (threadIdx.x == 0) p.row_loss[t] = target == kNoTarget ? 0.0F : logf(sum) - (logits[target] - largest);
    __syncthreads();  // the target's logit is read before it is overwritten
    for (std::int64_t c = threadIdx.x; c < p.vocabulary; c += kThreads) {
      const float gradient = expf(logits[c] - largest) * (share / sum) - (c == target ? share : 0.0F);
      logits[c] = target == kNoTarget ? 0.0F : gradient;
    }
  }
}

// ---- optimiser ------------------------------------------------------------------------------------------------------

__global__ void gradient_norm(GradientNorm p) {
  const std::int64_t tile_count = (p.count + kParameterTile - 1) / kParameterTile;
  for (std::int64_t tile = blockIdx.x; tile < tile_count; tile += gridDim.x) {
    const std::int64_t end = min(p.count, (tile + 1) * kParameterTile);
    double squares = 0;
    for (std::int64_t i = tile * kParameterTile + threadIdx.x; i < end; i += kThreads) {
      squares += static_cast<double>(p.gradients[i]) * static_cast<double>(p.gradients[i]);
    }
    squares = combine_in_block(squares, Sum{});
    if (threadIdx.x == 0) p.partial[tile] = squares;
  }
}

__global__ void begin_update(BeginUpdate p) {
  if (blockIdx.x > 0) return;
  double squares = 0;
  for (std::int64_t i = threadIdx.x; i < p.partial_count; i += kThreads) squares += p.partial[i];
  double loss = 0;
  for (std::int64_t t = threadIdx.x; t < p.rows; t += kThreads) loss += static_cast<double>(p.row_loss[t]);
  squares = combine_in_block(squares, Sum{});
  loss = combine_in_block(loss, Sum{});
  if (threadIdx.x == 0) begin_update_from(p, squares, loss);
}

__global__ void adamw(AdamW p) {
  const OptimizerState& state = *p.state;
  const float beta1 = p.settings.beta1;
  const float beta2 = p.settings.beta2;
  for (std::int64_t i = first_element(); i < p.count; i += element_step()) {
    const float gradient = state.gradient_scale * p.gradients[i];
    const float first = beta1 * p.first_moment[i] + (1.0F - beta1) * gradient;
    const float second = beta2 * p.second_moment[i] + (1.0F - beta2) * gradient * gradient;
    const float decay = i < p.decayed_count ? p.settings.weight_decay : 0.0F;
    p.first_moment[i] = first;
    p.second_moment[i] = second;
    p.parameters[i] -= state.learning_rate * (state.first_correction * first /
                                                  (sqrtf(state.second_correction * second) + p.settings.epsilon) +
                                              decay * p.parameters[i]);
  }
}

}  // namespace fmhax::train
