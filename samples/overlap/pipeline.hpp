/// @file Five stages, each on a stream of its own, with a double buffer between each two:
///
///   ordinary memory -load-> pinned[2] -upload-> device[2] -backward-> device[2] -download-> pinned[2] -collect->
///   results
///
/// Events order the stages; the host enqueues everything and waits once, at the end. The same operations with the
/// same events on a single stream are what the overlap is compared with.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "hip_owners.hpp"
#include "micro_batch.hpp"

namespace fmhax::sample {

enum class Stage : std::size_t {
  load = 0,      ///< host function: a micro-batch from ordinary into pinned memory
  upload = 1,    ///< copy, host to device
  backward = 2,  ///< replay of a graph
  download = 3,  ///< copy, device to host
  collect = 4    ///< host function: gradients from pinned memory to where they are kept
};
inline constexpr std::size_t kStages = 5;
/// "load", "upload", …
const char* to_string(Stage stage) noexcept;

enum class Schedule { one_stream, overlapped };

/// One stage of one micro-batch, timed by the events before and after it; ms after the run's start.
struct Operation {
  Stage stage = Stage::load;
  std::size_t micro_batch = 0;
  double begin_ms = 0;
  double end_ms = 0;
};

struct RunResult {
  std::vector<Operation> operations;
  double wall_ms = 0;         ///< from the first enqueue to the end of the wait, by the host's clock
  double device_busy_ms = 0;  ///< uploads, backward passes and downloads added up
  double stages_busy_ms = 0;  ///< the host functions too

  /// How many of the device's units (kernels, two copy engines) were at work on average.
  double device_overlap() const { return device_busy_ms / wall_ms; }
};

/// Allocates everything once; run() may be called any number of times, from one thread.
class Pipeline {
 public:
  /// At least one micro-batch; they must outlive the pipeline.
  Pipeline(const Executor& executor, const MicroBatchLayout& layout,
           const std::vector<std::vector<std::byte>>& micro_batches);

  /// Every micro-batch through all stages. Throws when a HIP call fails or a backward pass refused its lengths.
  RunResult run(Schedule schedule);

  /// The collected output blocks of the latest run; before it, and at its start, filled with NaN bytes.
  const std::vector<std::vector<std::byte>>& gradients() const noexcept { return gradients_; }

 private:
  static constexpr std::size_t kSlots = 2;

  /// A host function's copy; lives as long as the pipeline.
  struct HostCopy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    static void run(void* self) noexcept;
  };

  struct Slot {
    PinnedBytes pinned_inputs;
    DeviceBytes inputs;
    DeviceBytes outputs;
    PinnedBytes pinned_outputs;
    std::unique_ptr<Graph> backward;
  };

  void enqueue(Stage stage, std::size_t micro_batch, hipStream_t stream);
  RunResult read_times(double wall_ms) const;

  MicroBatchLayout layout_;
  DeviceBytes d_;
  std::array<Slot, kSlots> slots_;
  std::vector<std::vector<std::byte>> gradients_;
  std::vector<HostCopy> loads_;
  std::vector<HostCopy> collects_;
  Event start_;
  std::array<Stream, kStages> streams_;
  std::array<std::vector<Event>, kStages> begun_;  ///< [stage][micro-batch]
  std::array<std::vector<Event>, kStages> done_;
};

}  // namespace fmhax::sample
