/// @file What the handles of fmhax.h hold, and the call arguments that refer to them.
#pragma once

#include <hip/hip_runtime.h>

#include <memory>
#include <type_traits>

#include "executor_options.hpp"
#include "fmhax/executor.hpp"
#include "fmhax/fmhax.h"
#include "fmhax/graph.hpp"
#include "fmhax/graph_cache.hpp"
#include "fmhax/status.hpp"
#include "plain_data.hpp"

struct fmhax_status_buffer {
  fmhax::StatusBuffer buffer;
};

struct fmhax_executor {
  std::shared_ptr<fmhax::c_interface::Callbacks> callbacks;  ///< outlives the executor
  fmhax::Executor executor;
};

struct fmhax_graph {
  fmhax::Graph graph;
};

struct fmhax_graph_cache {
  fmhax::GraphCache cache;
};

static_assert(std::is_same_v<fmhax_stream, hipStream_t> && std::is_same_v<fmhax_hip_graph, hipGraph_t>);

namespace fmhax::c_interface {

template <>
fmhax_call_arguments defaults<fmhax_call_arguments>();

CallArguments arguments_from(const fmhax_call_arguments* given);

/// Makes a handle: *target is null until `make` has returned one.
template <class Handle, class Make>
fmhax_error_code create_handle(Handle** target, const char* name, Make&& make) noexcept {
  return guarded([&] {
    required(target, name) = nullptr;
    *target = make();
  });
}

}  // namespace fmhax::c_interface
