#include "training_step.hpp"

#include <utility>

#include "launch_kernel.hpp"

namespace fmhax::train {

TrainingStep::TrainingStep(const TrainingConfig& config, std::vector<std::string_view> documents)
    : config_(config),
      loader_(std::move(documents), config.batch, config.seed, config.optimizer.total_steps),
      staging_(BatchView::block_size(config.batch)),
      batch_(BatchView::block_size(config.batch)),
      model_(config.model, config.batch, config.seed),
      first_moment_(model_.layout().count),
      second_moment_(model_.layout().count),
      norm_partial_(tiles(model_.layout().count, kParameterTile).x),
      optimizer_state_(1),
      record_(1) {}

BatchView TrainingStep::device_batch() const { return BatchView::of_block(config_.batch, batch_.data()); }

void TrainingStep::enqueue(hipStream_t stream) {
  enqueue_batch(stream);
  model_.enqueue_forward(device_batch(), stream);
  model_.enqueue_backward(device_batch(), stream);
  enqueue_update(stream);
  log_.enqueue(record_.data(), stream);
}

void TrainingStep::enqueue_batch(hipStream_t stream) {
  const auto load = [](void* self) {
    auto& step = *static_cast<TrainingStep*>(self);
    step.loader_.load(BatchView::of_block(step.config_.batch, step.staging_.data()));
  };
  check(hipLaunchHostFunc(stream, load, this), "hipLaunchHostFunc");
  check(hipMemcpyAsync(batch_.data(), staging_.data(), static_cast<std::size_t>(batch_.count()) * sizeof(std::int32_t),
                       hipMemcpyHostToDevice, stream),
        "hipMemcpyAsync");
}

void TrainingStep::enqueue_update(hipStream_t stream) {
  const ParameterLayout& layout = model_.layout();
  launch(gradient_norm,
         {.gradients = model_.gradients().data(), .partial = norm_partial_.data(), .count = layout.count}, stream);
  launch(begin_update,
         {.settings = config_.optimizer,
          .partial = norm_partial_.data(),
          .partial_count = norm_partial_.count(),
          .row_loss = model_.row_loss().data(),
          .rows = config_.batch.tokens,
          .target_count = device_batch().target_count,
          .state = optimizer_state_.data(),
          .record = record_.data()},
         stream);
  launch(adamw,
         {.settings = config_.optimizer,
          .state = optimizer_state_.data(),
          .gradients = model_.gradients().data(),
          .parameters = model_.parameters().data(),
          .first_moment = first_moment_.data(),
          .second_moment = second_moment_.data(),
          .count = layout.count,
          .decayed_count = layout.decayed_count},
         stream);
}

}  // namespace fmhax::train
