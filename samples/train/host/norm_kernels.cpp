#include <cmath>

#include "eigen_maps.hpp"
#include "formulas.hpp"

namespace fmhax::train {

void residual_norm_forward(ResidualNormForward p) {
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  const ConstRowMap gain(p.gain, p.width);
  for (std::int64_t t = tile.begin; t < tile.end(); ++t) {
    const float* row = p.stream_in + t * p.width;
    if (p.branch != nullptr) {
      float* sum = p.stream_out + t * p.width;
      RowMap(sum, p.width) = ConstRowMap(row, p.width) + ConstRowMap(p.branch + t * p.width, p.width);
      row = sum;
    }
    const ConstRowMap stream(row, p.width);
    const float inverse_rms = 1.0F / std::sqrt(stream.square().mean() + kNormEpsilon);
    p.inverse_rms[t] = inverse_rms;
    RowMap(p.y + t * p.width, p.width) = stream * inverse_rms * gain;
  }
}

void norm_backward(NormBackward p) {
  // With r the inverse RMS and n the width: dx = r * (g dy) - x * r^3 / n * sum(x g dy).
  const Tile tile(hiphost::block_idx().x, p.rows, kRowTile);
  const ConstRowMap gain(p.gain, p.width);
  for (std::int64_t t = tile.begin; t < tile.end(); ++t) {
    const ConstRowMap stream(p.stream + t * p.width, p.width);
    const ConstRowMap dy(p.dy + t * p.width, p.width);
    const float r = p.inverse_rms[t];
    const float along = (stream * gain * dy).mean() * r * r * r;
    RowMap d_stream(p.d_stream + t * p.width, p.width);
    if (p.accumulates) {
      d_stream += r * gain * dy - along * stream;
    } else {
      d_stream = r * gain * dy - along * stream;
    }
  }
}

void norm_gain_gradient(NormGainGradient p) {
  const Tile columns(hiphost::block_idx().x, p.width, kColumnTile);
  RowMap d_gain(p.d_gain + columns.begin, columns.count);
  d_gain.setZero();
  for (std::int64_t t = 0; t < p.rows; ++t) {
    const std::int64_t at = t * p.width + columns.begin;
    d_gain += ConstRowMap(p.dy + at, columns.count) * ConstRowMap(p.stream + at, columns.count) * p.inverse_rms[t];
  }
}

}  // namespace fmhax::train
