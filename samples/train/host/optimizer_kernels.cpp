#include "eigen_maps.hpp"
#include "formulas.hpp"

namespace fmhax::train {

void gradient_norm(GradientNorm p) {
  const std::uint32_t block = hiphost::block_idx().x;
  const Tile tile(block, p.count, kParameterTile);
  const Eigen::Map<const Eigen::ArrayXf> gradients(p.gradients + tile.begin, tile.count);
  p.partial[block] = gradients.cast<double>().square().sum();
}

void begin_update(BeginUpdate p) {
  double squares = 0;
  for (std::int64_t i = 0; i < p.partial_count; ++i) squares += p.partial[i];
  double loss = 0;
  for (std::int64_t t = 0; t < p.rows; ++t) loss += static_cast<double>(p.row_loss[t]);
  begin_update_from(p, squares, loss);
}

void adamw(AdamW p) {
  const Tile tile(hiphost::block_idx().x, p.count, kParameterTile);
  const OptimizerState& state = *p.state;
  const auto update = [&](std::int64_t begin, std::int64_t end, float decay) {
    if (begin >= end) return;
    const auto part = [&](auto* data) { return data + begin; };
    using Array = Eigen::ArrayXf;
    const Eigen::Map<const Array> gradients(part(p.gradients), end - begin);
    Eigen::Map<Array> parameters(part(p.parameters), end - begin);
    Eigen::Map<Array> first(part(p.first_moment), end - begin);
    Eigen::Map<Array> second(part(p.second_moment), end - begin);
    const float beta1 = p.settings.beta1;
    const float beta2 = p.settings.beta2;
    first = beta1 * first + (1.0F - beta1) * state.gradient_scale * gradients;
    second = beta2 * second + (1.0F - beta2) * (state.gradient_scale * gradients).square();
    parameters -= state.learning_rate *
                  (state.first_correction * first / ((state.second_correction * second).sqrt() + p.settings.epsilon) +
                   decay * parameters);
  };
  update(tile.begin, std::min(tile.end(), p.decayed_count), p.settings.weight_decay);
  update(std::max(tile.begin, p.decayed_count), tile.end(), 0.0F);
}

}  // namespace fmhax::train
