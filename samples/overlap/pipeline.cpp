#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <stdexcept>

namespace fmhax::sample {
namespace {

double elapsed_ms(const Event& from, const Event& to) {
  float ms = 0;
  check(hipEventElapsedTime(&ms, from.get(), to.get()), "hipEventElapsedTime");
  return static_cast<double>(ms);
}

}  // namespace

const char* to_string(Stage stage) noexcept {
  static constexpr const char* kNames[kStages] = {"load", "upload", "backward", "download", "collect"};
  return kNames[static_cast<std::size_t>(stage)];
}

void Pipeline::HostCopy::run(void* self) noexcept {
  const auto& copy = *static_cast<const HostCopy*>(self);
  std::memcpy(copy.to, copy.from, copy.bytes);
}

Pipeline::Pipeline(const Executor& executor, const MicroBatchLayout& layout,
                   const std::vector<std::vector<std::byte>>& micro_batches)
    : layout_(layout), d_(make_device_bytes(layout.d_bytes())), start_(make_event()) {
  if (micro_batches.empty()) throw std::invalid_argument("Pipeline: no micro-batches");
  for (Slot& slot : slots_) {
    slot.pinned_inputs = make_pinned_bytes(layout.input_bytes());
    slot.inputs = make_device_bytes(layout.input_bytes());
    slot.outputs = make_device_bytes(layout.output_bytes());
    slot.pinned_outputs = make_pinned_bytes(layout.output_bytes());
    // A graph refers to one set of buffers, so each slot has its own. They share the scratch `d`: backward passes
    // follow one another on one stream.
    const CallArguments call = layout.arguments(slot.inputs.get(), slot.outputs.get(), d_.get());
    slot.backward = std::make_unique<Graph>(executor, call);
  }
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const Slot& slot = slots_[i % kSlots];
    gradients_.emplace_back(layout.output_bytes(), std::byte{0xFF});
    loads_.push_back({slot.pinned_inputs.get(), micro_batches[i].data(), layout.input_bytes()});
    collects_.push_back({gradients_[i].data(), slot.pinned_outputs.get(), layout.output_bytes()});
  }
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    streams_[stage] = make_stream();
    std::generate_n(std::back_inserter(begun_[stage]), micro_batches.size(), make_event);
    std::generate_n(std::back_inserter(done_[stage]), micro_batches.size(), make_event);
  }
}

RunResult Pipeline::run(Schedule schedule) {
  for (std::vector<std::byte>& block : gradients_) std::fill(block.begin(), block.end(), std::byte{0xFF});
  const auto wait = [](hipStream_t stream, const Event& event) {
    check(hipStreamWaitEvent(stream, event.get(), 0), "hipStreamWaitEvent");
  };
  const auto record = [](const Event& event, hipStream_t stream) {
    check(hipEventRecord(event.get(), stream), "hipEventRecord");
  };

  const auto wall_begin = std::chrono::steady_clock::now();
  record(start_, streams_[0].get());
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    for (std::size_t stage = 0; stage < kStages; ++stage) {
      hipStream_t stream = streams_[schedule == Schedule::overlapped ? stage : 0].get();
      if (stage > 0) wait(stream, done_[stage - 1][i]);                                    // its input is there
      if (stage + 1 < kStages && i >= kSlots) wait(stream, done_[stage + 1][i - kSlots]);  // its output slot is free
      record(begun_[stage][i], stream);
      enqueue(static_cast<Stage>(stage), i, stream);
      record(done_[stage][i], stream);
    }
  }
  // The last stage of the last micro-batch comes after everything else. This is the only wait.
  check(hipEventSynchronize(done_[kStages - 1].back().get()), "hipEventSynchronize");
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - wall_begin;

  for (const Slot& slot : slots_) {
    const CallStatus status = slot.backward->status();
    if (status.code != StatusCode::ok) throw std::runtime_error("backward: " + to_string(status));
  }
  return read_times(wall.count());
}

void Pipeline::enqueue(Stage stage, std::size_t micro_batch, hipStream_t stream) {
  const Slot& slot = slots_[micro_batch % kSlots];
  switch (stage) {
    case Stage::load:
      return check(hipLaunchHostFunc(stream, HostCopy::run, &loads_[micro_batch]), "hipLaunchHostFunc");
    case Stage::upload:
      return check(hipMemcpyAsync(slot.inputs.get(), slot.pinned_inputs.get(), layout_.input_bytes(),
                                  hipMemcpyHostToDevice, stream),
                   "hipMemcpyAsync");
    case Stage::backward:
      return slot.backward->launch(stream);
    case Stage::download:
      return check(hipMemcpyAsync(slot.pinned_outputs.get(), slot.outputs.get(), layout_.output_bytes(),
                                  hipMemcpyDeviceToHost, stream),
                   "hipMemcpyAsync");
    case Stage::collect:
      return check(hipLaunchHostFunc(stream, HostCopy::run, &collects_[micro_batch]), "hipLaunchHostFunc");
  }
}

RunResult Pipeline::read_times(double wall_ms) const {
  RunResult result;
  result.wall_ms = wall_ms;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    for (std::size_t s = 0; s < kStages; ++s) {
      const auto stage = static_cast<Stage>(s);
      result.operations.push_back({stage, i, elapsed_ms(start_, begun_[s][i]), elapsed_ms(start_, done_[s][i])});
      const double duration = result.operations.back().end_ms - result.operations.back().begin_ms;
      result.stages_busy_ms += duration;
      if (stage != Stage::load && stage != Stage::collect) result.device_busy_ms += duration;
    }
  }
  return result;
}

}  // namespace fmhax::sample
