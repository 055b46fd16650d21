#include <algorithm>
#include <cmath>

#include "formulas.hpp"
#include "kernel_harness.hpp"

namespace fmhax::train::test {
namespace {

TEST_CASE("AdamW: two steps agree with the algorithm computed by hand") {
  // With a constant gradient g both corrected moments are g and g^2, so each step moves by rate * (sign(g) + decay *
  // p).
  const AdamWSettings settings{.learning_rate = 0.1F,
                               .final_fraction = 1.0F,
                               .beta1 = 0.9F,
                               .beta2 = 0.99F,
                               .epsilon = 0.0F,
                               .weight_decay = 0.5F,
                               .clip_norm = 1e9F,
                               .warmup_steps = 1,
                               .total_steps = 100};
  const Values gradients = {2.0F, -4.0F, 8.0F};
  Values parameters = {1.0F, 2.0F, 3.0F};
  Values first(3, 0.0F);
  Values second(3, 0.0F);
  OptimizerState state;
  StepRecord record;
  double partial = 0;
  const Values row_loss = {1.0F, 2.0F};
  const std::int32_t target_count = 2;
  const auto step = [&] {
    run_blocks(gradient_norm, {gradients.data(), &partial, 3});
    run_blocks(begin_update, {settings, &partial, 1, row_loss.data(), 2, &target_count, &state, &record});
    run_blocks(adamw, {settings, &state, gradients.data(), parameters.data(), first.data(), second.data(), 3, 2});
  };
  step();
  CHECK(first[0] == doctest::Approx(0.2));
  CHECK(second[0] == doctest::Approx(0.04));
  CHECK(parameters[0] == doctest::Approx(1.0 - 0.1 * (1.0 + 0.5 * 1.0)));
  CHECK(parameters[1] == doctest::Approx(2.0 - 0.1 * (-1.0 + 0.5 * 2.0)));
  CHECK(parameters[2] == doctest::Approx(3.0 - 0.1));  // a gain: no decay
  step();
  CHECK(first[0] == doctest::Approx(0.9 * 0.2 + 0.1 * 2.0));
  CHECK(second[0] == doctest::Approx(0.99 * 0.04 + 0.01 * 4.0));
  CHECK(parameters[0] == doctest::Approx(0.85 - 0.1 * (1.0 + 0.5 * 0.85)));
  CHECK(parameters[1] == doctest::Approx(2.0 - 0.1 * (-1.0 + 0.5 * 2.0)));
  CHECK(parameters[2] == doctest::Approx(2.8));
  CHECK(record.step == 2);
  CHECK(record.loss == doctest::Approx(1.5));
  CHECK(record.gradient_norm == doctest::Approx(std::sqrt(4.0 + 16.0 + 64.0)));
  CHECK(record.target_count == 2);
}

TEST_CASE("AdamW: a gradient that is too long counts as one of the allowed length") {
  AdamWSettings settings;
  settings.clip_norm = 5.0F;
  const Values gradients = {30.0F, -40.0F};
  Values parameters(2, 0.0F);
  Values first(2, 0.0F);
  Values second(2, 0.0F);
  OptimizerState state;
  StepRecord record;
  double partial = 0;
  const float row_loss = 0;
  const std::int32_t target_count = 1;
  run_blocks(gradient_norm, {gradients.data(), &partial, 2});
  run_blocks(begin_update, {settings, &partial, 1, &row_loss, 1, &target_count, &state, &record});
  run_blocks(adamw, {settings, &state, gradients.data(), parameters.data(), first.data(), second.data(), 2, 2});
  CHECK(record.gradient_norm == doctest::Approx(50.0));
  CHECK(state.gradient_scale == doctest::Approx(0.1));
  CHECK(first[0] == doctest::Approx(0.1 * 3.0));
  CHECK(first[1] == doctest::Approx(0.1 * -4.0));
  CHECK(second[0] == doctest::Approx(0.02 * 9.0));
}

TEST_CASE("AdamW: every parameter is updated once, whichever tile it and the end of the decay lie in") {
  const std::int64_t count = 2 * kParameterTile + 17;
  const AdamWSettings settings{.learning_rate = 1.0F, .final_fraction = 1.0F, .epsilon = 0.0F, .weight_decay = 0.25F};
  const OptimizerState state{.step = 1, .learning_rate = 1.0F, .first_correction = 10.0F, .second_correction = 50.0F};
  for (const std::int64_t decayed :
       {std::int64_t{0}, kParameterTile - 3, kParameterTile, 2 * kParameterTile + 5, count}) {
    const Values gradients(static_cast<std::size_t>(count), 1.0F);
    Values parameters(static_cast<std::size_t>(count), 8.0F);
    Values first(static_cast<std::size_t>(count), 0.0F);
    Values second(static_cast<std::size_t>(count), 0.0F);
    run_blocks(adamw,
               {settings, &state, gradients.data(), parameters.data(), first.data(), second.data(), count, decayed});
    const auto wrong = [&](std::int64_t begin, std::int64_t end, double expected) {
      return std::count_if(parameters.begin() + begin, parameters.begin() + end,
                           [&](float p) { return std::abs(static_cast<double>(p) - expected) > 1e-4; });
    };
    CHECK(wrong(0, decayed, 8.0 - (1.0 + 0.25 * 8.0)) == 0);
    CHECK(wrong(decayed, count, 8.0 - 1.0) == 0);
  }
}

TEST_CASE("learning rate: rises in a line, falls in a half cosine, stays at its end") {
  const AdamWSettings settings{.learning_rate = 2.0F, .final_fraction = 0.25F, .warmup_steps = 10, .total_steps = 110};
  CHECK(learning_rate_of(settings, 1) == doctest::Approx(0.2));
  CHECK(learning_rate_of(settings, 10) == doctest::Approx(2.0));
  CHECK(learning_rate_of(settings, 60) == doctest::Approx(2.0 * (0.25 + 0.75 * 0.5)));
  CHECK(learning_rate_of(settings, 110) == doctest::Approx(0.5));
  CHECK(learning_rate_of(settings, 500) == doctest::Approx(0.5));
}

}  // namespace
}  // namespace fmhax::train::test
