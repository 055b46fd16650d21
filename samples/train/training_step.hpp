/// @file One whole training step as stream operations.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "hip_objects.hpp"
#include "kernels.hpp"
#include "loader.hpp"
#include "model.hpp"
#include "step_log.hpp"

namespace fmhax::train {

struct TrainingConfig {
  ModelShape model;
  BatchShape batch;
  AdamWSettings optimizer;  ///< its total_steps is the length of the run
  std::uint64_t seed = 1;
};

/// Model, optimiser, data and log of one run. Two with the same configuration and documents train alike, bit for bit.
///
/// Everything that differs from step to step is found by the step itself: the loader is a host function within it, the
/// step's number and learning rate lie in device memory, the loss goes into a log. So the operations and all of their
/// arguments are the same in every step, and a graph of one step can be replayed for all of them.
class TrainingStep {
 public:
  /// The documents' bytes must outlive this object. Throws when a size is not allowed.
  TrainingStep(const TrainingConfig& config, std::vector<std::string_view> documents);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// Enqueues one step: load, upload, forward, backward, update, log. Waits for nothing. *this must outlive the work,
  /// and any graph that captures it.
  void enqueue(hipStream_t stream);

  const TrainingConfig& config() const noexcept { return config_; }
  const Model& model() const noexcept { return model_; }
  const Loader& loader() const noexcept { return loader_; }
  StepLog& log() noexcept { return log_; }
  /// The batch that the device holds: of the latest step that got so far.
  BatchView device_batch() const;

 private:
  void enqueue_batch(hipStream_t stream);
  void enqueue_update(hipStream_t stream);

  TrainingConfig config_;
  Loader loader_;
  PinnedBuffer<std::int32_t> staging_;  ///< written by the loader after the previous step's upload, by stream order
  DeviceBuffer<std::int32_t> batch_;
  Model model_;
  DeviceBuffer<float> first_moment_, second_moment_;
  DeviceBuffer<double> norm_partial_;
  DeviceBuffer<OptimizerState> optimizer_state_;
  DeviceBuffer<StepRecord> record_;
  StepLog log_;
};

}  // namespace fmhax::train
