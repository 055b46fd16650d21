/// @file Times of calls that enqueue work: the host's, the device's, and of many in a row.
#pragma once

#include <functional>

#include "bench_run.hpp"

namespace fmhax::tool {

/// Enqueues the call that belongs to one of the copies of its tensors.
using CopyCall = std::function<void(int copy, hipStream_t stream)>;

/// Measures `call`, rotating over copies 0 to `copies` - 1, on a stream of its own.
ModeTimes time_calls(int copies, const BenchOptions& options, double flops, const CopyCall& call);

}  // namespace fmhax::tool
