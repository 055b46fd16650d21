/// @file A case in device memory, ready to be run in every way that the library offers.
#pragma once

#include <string>
#include <vector>

#include "fmhax/executor.hpp"
#include "fmhax/tensor.hpp"
#include "verification/case.hpp"
#include "verification/device_buffer.hpp"
#include "verification/device_features.hpp"
#include "verification/device_tensor.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// How the backward pass is asked for.
enum class RunMode {
  eager,     ///< Executor::enqueue
  captured,  ///< the same on a capturing stream; the graph is then launched
  graph,     ///< fmhax::Graph
  prepared   ///< prepare_workspace from host lengths into a workspace of the exact size, then enqueue_kernels
};
const char* to_string(RunMode mode);

struct RunResult {
  Gradients gradients;
  CallStatus status;
  std::string violation;  ///< a stray write or a changed input, in words; empty: none
};

struct ForwardRun {
  DenseTensor o;
  DenseTensor lse;
  DenseTensor random_values;  ///< where the problem stores them
  std::string violation;      ///< a stray write; empty: none
};

/// Owns the tensors, lengths and workspace of one case. Input rows that belong to no sequence hold NaN, and
/// before each run every output, the scratch tensor and the workspace are set to NaN. All functions block.
class DeviceProblem {
 public:
  /// Allocates for the case's problem and layouts on the current device, and loads it.
  DeviceProblem(const Case& c, const AttentionInputs& inputs, const ForwardResult& forward, const Executor& executor);

  /// Replaces lengths and inputs by those of another case with the same problem and layouts.
  void load(const Case& c, const AttentionInputs& inputs, const ForwardResult& forward);

  /// What a call gets; may be changed before run().
  CallArguments& arguments() { return arguments_; }

  /// Runs once eagerly or `replays` times from one graph, on a stream of its own.
  std::vector<RunResult> run(RunMode mode, int replays = 1);

  void poison_outputs();
  Gradients download_gradients() const;
  /// Runs the forward pass in place of what load() left of o and lse; the random values come with it.
  ForwardRun run_forward();
  DeviceFeatures& features() { return features_; }
  /// See RunResult::violation.
  std::string violation() const;

 private:
  struct Lengths {
    GuardedBuffer seqstart_q, seqstart_k, logical_q, logical_k;
  };

  RunResult result() const;
  void run_prepared(hipStream_t stream);

  Case case_;
  Executor executor_;
  DeviceTensor q_, k_, v_, o_, dout_, lse_, d_, dq_, dk_, dv_;
  DeviceFeatures features_;
  Lengths lengths_;
  GuardedBuffer workspace_;
  GuardedBuffer exact_workspace_;
  CallArguments arguments_;
};

}  // namespace fmhax::verification
