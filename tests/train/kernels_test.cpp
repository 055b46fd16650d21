#include "kernels.hpp"

#include <algorithm>

#include "kernel_harness.hpp"

namespace fmhax::train::test {
namespace {

constexpr std::int64_t kRows = kRowTile + 21;  // the last tile is not full
constexpr std::int64_t kWidth = kColumnTile + 8;

std::vector<std::int32_t> random_indices(std::int64_t count, std::int32_t limit, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(limit)));
  }
  return indices;
}

TEST_CASE("embedding: the gradients of both tables are the slopes of a linear functional of x") {
  constexpr std::int64_t kTokens = 11;
  constexpr std::int64_t kLongest = 7;
  const auto tokens = random_indices(kRows, kTokens, 1);
  const auto positions = random_indices(kRows, kLongest - 1, 2);  // one position is never used
  const Values token_table = random_values(kTokens * kWidth, 3);
  const Values position_table = random_values(kLongest * kWidth, 4);
  const Values weights = random_values(kRows * kWidth, 5);
  const auto loss = [&](const Values& token_values, const Values& position_values) {
    Values x = poisoned(kRows * kWidth);
    run_blocks(embedding_forward,
               {tokens.data(), positions.data(), token_values.data(), position_values.data(), x.data(), kRows, kWidth});
    return dot(x, weights);
  };
  Values d_tokens = random_values(kTokens * kWidth, 6);  // what the head wrote before
  const Values from_head = d_tokens;
  Values d_positions = poisoned(kLongest * kWidth);
  run_blocks(embedding_backward, {tokens.data(), positions.data(), weights.data(), d_tokens.data(), d_positions.data(),
                                  kRows, kWidth, kLongest});
  for (std::size_t i = 0; i < d_tokens.size(); ++i) d_tokens[i] -= from_head[i];
  check_gradient([&](const Values& at) { return loss(at, position_table); }, token_table, d_tokens);
  check_gradient([&](const Values& at) { return loss(token_table, at); }, position_table, d_positions);
  CHECK(std::all_of(d_positions.end() - kWidth, d_positions.end(), [](float g) { return g == 0.0F; }));
}

TEST_CASE("linear: dx and dw are the slopes, and a transposed weight gives the same y") {
  constexpr std::int64_t kInputs = kWidth;
  constexpr std::int64_t kOutputs = 24;
  const Values x = random_values(kRows * kInputs, 1);
  const Values w = random_values(kInputs * kOutputs, 2);
  const Values dy = random_values(kRows * kOutputs, 3);
  const auto y_of = [&](const Values& x_values, const Values& w_values, bool is_transposed) {
    Values y = poisoned(kRows * kOutputs);
    run_blocks(linear_forward, {x_values.data(), w_values.data(), y.data(), kRows, kInputs, kOutputs, is_transposed});
    return y;
  };
  Values dx = poisoned(kRows * kInputs);
  run_blocks(linear_forward, {dy.data(), w.data(), dx.data(), kRows, kOutputs, kInputs, true});
  Values dw = poisoned(kInputs * kOutputs);
  run_blocks(linear_weight_gradient, {x.data(), dy.data(), dw.data(), kRows, kInputs, kOutputs});
  check_gradient([&](const Values& at) { return dot(y_of(at, w, false), dy); }, x, dx);
  check_gradient([&](const Values& at) { return dot(y_of(x, at, false), dy); }, w, dw);

  Values w_transposed(w.size());
  for (std::int64_t i = 0; i < kInputs; ++i) {
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      w_transposed[static_cast<std::size_t>(j * kInputs + i)] = w[static_cast<std::size_t>(i * kOutputs + j)];
    }
  }
  const Values y = y_of(x, w, false);
  const Values y_transposed = y_of(x, w_transposed, true);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(y_transposed[i]).epsilon(1e-4));
}

TEST_CASE("residual and norm: the gradients of the stream and of the gain are the slopes") {
  const Values stream = random_values(kRows * kWidth, 1);
  const Values branch = random_values(kRows * kWidth, 2);
  const Values gain = random_values(kWidth, 3);
  const Values dy = random_values(kRows * kWidth, 4);
  Values sum = poisoned(kRows * kWidth);
  Values inverse_rms = poisoned(kRows);
  const auto y_of = [&](const Values& stream_values, const Values& gain_values) {
    Values y = poisoned(kRows * kWidth);
    run_blocks(residual_norm_forward, {stream_values.data(), branch.data(), gain_values.data(), sum.data(),
                                       inverse_rms.data(), y.data(), kRows, kWidth});
    return y;
  };
  y_of(stream, gain);
  for (std::size_t i = 0; i < sum.size(); ++i) REQUIRE(sum[i] == stream[i] + branch[i]);
  const Values norm_input = sum;
  const Values scales = inverse_rms;

  Values d_gain = poisoned(kWidth);
  run_blocks(norm_gain_gradient, {norm_input.data(), scales.data(), dy.data(), d_gain.data(), kRows, kWidth});
  check_gradient([&](const Values& at) { return dot(y_of(stream, at), dy); }, gain, d_gain);

  Values d_stream = poisoned(kRows * kWidth);
  NormBackward backward{norm_input.data(), scales.data(), gain.data(), dy.data(),
                        d_stream.data(),   kRows,         kWidth,      false};
  run_blocks(norm_backward, backward);
  check_gradient([&](const Values& at) { return dot(y_of(at, gain), dy); }, stream, d_stream);

  Values accumulated(d_stream.size(), 3.0F);
  backward.d_stream = accumulated.data();
  backward.accumulates = true;
  run_blocks(norm_backward, backward);
  for (std::size_t i = 0; i < d_stream.size(); ++i) CHECK(accumulated[i] == doctest::Approx(3.0F + d_stream[i]));
}

TEST_CASE("norm without a branch reads the stream as it is") {
  const Values stream = random_values(kRows * kWidth, 1);
  const Values zero(stream.size(), 0.0F);
  const Values gain = random_values(kWidth, 2);
  Values sum = poisoned(kRows * kWidth);
  Values inverse_rms = poisoned(kRows);
  Values y = poisoned(kRows * kWidth);
  Values y_with_zero = poisoned(kRows * kWidth);
  run_blocks(residual_norm_forward,
             {stream.data(), nullptr, gain.data(), nullptr, inverse_rms.data(), y.data(), kRows, kWidth});
  run_blocks(residual_norm_forward, {stream.data(), zero.data(), gain.data(), sum.data(), inverse_rms.data(),
                                     y_with_zero.data(), kRows, kWidth});
  CHECK(y == y_with_zero);
}

TEST_CASE("GELU: the gradient is the slope, and the values are the textbook's") {
  const Values x = random_values(kRows * kWidth, 1);
  const Values dy = random_values(kRows * kWidth, 2);
  const auto y_of = [&](const Values& at) {
    Values y = poisoned(kRows * kWidth);
    run_blocks(gelu_forward, {at.data(), y.data(), kRows, kWidth});
    return y;
  };
  Values d = dy;
  run_blocks(gelu_backward, {x.data(), d.data(), kRows, kWidth});
  check_gradient([&](const Values& at) { return dot(y_of(at), dy); }, x, d);

  Values known(static_cast<std::size_t>(kRows * kWidth), 0.0F);
  known[1] = 1.0F;
  known[2] = -1.0F;
  known[3] = 20.0F;
  known[4] = -20.0F;
  const Values y = y_of(known);
  CHECK(y[0] == 0.0F);
  CHECK(y[1] == doctest::Approx(0.841192));
  CHECK(y[2] == doctest::Approx(-0.158808));
  CHECK(y[3] == doctest::Approx(20.0));
  CHECK(y[4] == doctest::Approx(0.0));
}

TEST_CASE("cross-entropy: logits become the slope of the mean loss; rows without a target count for nothing") {
  constexpr std::int64_t kClasses = 19;
  const Values logits = random_values(kRows * kClasses, 1);
  auto targets = random_indices(kRows, kClasses, 2);
  for (std::size_t t = 3; t < targets.size(); t += 5) targets[t] = kNoTarget;
  const auto count = static_cast<std::int32_t>(
      std::count_if(targets.begin(), targets.end(), [](std::int32_t target) { return target != kNoTarget; }));
  Values row_loss;
  const auto gradient_of = [&](const Values& at) {
    Values in_place = at;
    row_loss = poisoned(kRows);
    run_blocks(cross_entropy, {in_place.data(), targets.data(), &count, row_loss.data(), kRows, kClasses});
    return in_place;
  };
  const auto loss = [&](const Values& at) {
    gradient_of(at);
    double sum = 0;
    for (const float value : row_loss) sum += static_cast<double>(value);
    return sum / count;
  };
  const Values gradient = gradient_of(logits);
  check_gradient(loss, logits, gradient);
  for (std::size_t t = 3; t < targets.size(); t += 5) {
    CHECK(row_loss[t] == 0.0F);
    const auto row = gradient.begin() + static_cast<std::ptrdiff_t>(t) * kClasses;
    CHECK(std::all_of(row, row + kClasses, [](float g) { return g == 0.0F; }));
  }
}

TEST_CASE("cross-entropy: equal logits cost the logarithm of the number of classes, large ones do not overflow") {
  constexpr std::int64_t kClasses = 256;
  Values logits(2 * kClasses, 0.0F);
  std::fill(logits.begin() + kClasses, logits.end(), -1e4F);
  logits[kClasses + 7] = 1e4F;
  const std::vector<std::int32_t> targets = {3, 7};
  const std::int32_t count = 2;
  Values row_loss = poisoned(2);
  run_blocks(cross_entropy, {logits.data(), targets.data(), &count, row_loss.data(), 2, kClasses});
  CHECK(row_loss[0] == doctest::Approx(std::log(256.0)));
  CHECK(row_loss[1] == 0.0F);
}

}  // namespace
}  // namespace fmhax::train::test
