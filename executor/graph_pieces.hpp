/// @file What a graph is made of besides its staging.
#pragma once

#include <hip/hip_runtime.h>

#include <memory>

namespace fmhax::detail {

/// Let go when the last launch has passed.
struct GraphPieces {
  GraphPieces() = default;
  GraphPieces(const GraphPieces&) = delete;
  GraphPieces& operator=(const GraphPieces&) = delete;
  ~GraphPieces() {
    if (executable != nullptr) (void)hipGraphExecDestroy(executable);
    if (graph != nullptr) (void)hipGraphDestroy(graph);
  }

  hipGraph_t graph = nullptr;
  hipGraphExec_t executable = nullptr;
  std::shared_ptr<void> workspace{};
};

}  // namespace fmhax::detail
