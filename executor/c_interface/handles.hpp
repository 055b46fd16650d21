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

namespace fmhax::c_interface {

// HIP's own handles wherever HIP defines them; platforms that map HIP onto another runtime have that runtime's.
static_assert(sizeof(fmhax_stream) == sizeof(hipStream_t) && std::is_pointer_v<hipStream_t>);
static_assert(sizeof(fmhax_hip_graph) == sizeof(hipGraph_t) && std::is_pointer_v<hipGraph_t>);

inline hipStream_t to_hip(fmhax_stream stream) { return reinterpret_cast<hipStream_t>(stream); }
inline fmhax_hip_graph from_hip(hipGraph_t graph) { return reinterpret_cast<fmhax_hip_graph>(graph); }

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
