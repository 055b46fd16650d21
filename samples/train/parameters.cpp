#include <cmath>
#include <numbers>
#include <random>

#include "model.hpp"

namespace fmhax::train {
namespace {

constexpr std::int64_t kAlignment = 16;  // parameters; 64 bytes

/// Hands out consecutive spans.
class Allocator {
 public:
  Span take(std::int64_t rows, std::int64_t columns) {
    const Span span{next_, rows, columns};
    next_ += (span.count() + kAlignment - 1) / kAlignment * kAlignment;
    return span;
  }
  std::int64_t count() const { return next_; }

 private:
  std::int64_t next_ = 0;
};

/// Standard normal values by Box and Muller: unlike std::normal_distribution the same with every standard library.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : random_(seed) {}
  float next() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::mt19937_64 random_;
};

}  // namespace

ParameterLayout::ParameterLayout(const ModelShape& shape, std::int64_t longest)
    : layers(static_cast<std::size_t>(shape.layers)) {
  Allocator all;
  token_table = all.take(kVocabulary, shape.width);
  position_table = all.take(longest, shape.width);
  for (Layer& layer : layers) {
    layer.qkv = all.take(shape.width, 3 * shape.width);
    layer.attention_out = all.take(shape.width, shape.width);
    layer.up = all.take(shape.width, shape.mlp_width());
    layer.down = all.take(shape.mlp_width(), shape.width);
  }
  decayed_count = all.count();
  for (Layer& layer : layers) {
    layer.attention_gain = all.take(1, shape.width);
    layer.mlp_gain = all.take(1, shape.width);
  }
  final_gain = all.take(1, shape.width);
  count = all.count();
}

std::vector<float> ParameterLayout::initial_values(std::uint64_t seed) const {
  std::vector<float> values(static_cast<std::size_t>(count), 0.0F);
  Normal normal(seed);
  const auto fill = [&](const Span& span, float deviation) {
    for (std::int64_t i = 0; i < span.count(); ++i) {
      values[static_cast<std::size_t>(span.offset + i)] = deviation * normal.next();
    }
  };
  const auto fill_ones = [&](const Span& span) {
    for (std::int64_t i = 0; i < span.count(); ++i) values[static_cast<std::size_t>(span.offset + i)] = 1.0F;
  };
  const auto fan_in = [](const Span& span) { return 1.0F / std::sqrt(static_cast<float>(span.rows)); };
  const float residual = 0.2F / std::sqrt(2.0F * static_cast<float>(layers.size()));
  const float table = 1.0F / std::sqrt(static_cast<float>(token_table.columns));

  fill(token_table, table);
  fill(position_table, table);
  for (const Layer& layer : layers) {
    fill(layer.qkv, fan_in(layer.qkv));
    fill(layer.attention_out, residual * fan_in(layer.attention_out));
    fill(layer.up, fan_in(layer.up));
    fill(layer.down, residual * fan_in(layer.down));
    fill_ones(layer.attention_gain);
    fill_ones(layer.mlp_gain);
  }
  fill_ones(final_gain);
  return values;
}

}  // namespace fmhax::train
