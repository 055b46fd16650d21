/// @file Everything about a call that can be checked before it is enqueued.
#pragma once

#include <hip/hip_runtime.h>

#include "executor_state.hpp"

namespace fmhax::detail {

/// Which arguments a call uses.
struct CallUse {
  bool backward = true;              ///< dout, d, gradients; else only the forward's
  bool kernels = true;               ///< tensors at all
  std::int64_t workspace_bytes = 0;  ///< needed; 0: none
};

/// Throws Error(invalid_argument, workspace_too_small) naming the first field that is wrong.
void check_call(const ExecutorState& state, const CallArguments& arguments, const CallUse& use);

/// Throws unless the workspace is there, aligned, of the right device and has `needed` bytes (0: not needed at all).
void check_workspace(const ExecutorState& state, const CallArguments& arguments, std::int64_t needed);

/// Throws unless the host arrays that the problem asks for are there and hold lengths within the capacity.
void check_host_lengths(const ExecutorState& state, const SequenceLengths& lengths);

/// Throws unless the stream belongs to the plan's device. Leaves the current device as it is, and returns it.
int check_stream(const ExecutorState& state, hipStream_t stream);

}  // namespace fmhax::detail
