/// @file What a GraphCache finds its graphs by.
#pragma once

#include <cstddef>
#include <string_view>

#include "executor_state.hpp"

namespace fmhax::detail {

/// Executors whose plans are equal make the same graph of the same arguments.
struct PlanKey {
  explicit PlanKey(const ExecutorState& state);

  Problem problem;
  std::int32_t device;
  std::string_view kernel;  ///< of a registered entry: lives as long as the process
  Keepalive keepalive;
  MetadataPath metadata_path;
  std::int64_t max_splits;
  /// Null but for a plan with the caller's allocators, which can't be compared. A graph keeps its plan alive, so the
  /// address is not another plan's as long as the graph is there.
  const ExecutorState* allocators;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct GraphKey {
  PlanKey plan;
  CallArguments arguments;

  friend bool operator==(const GraphKey&, const GraphKey&) = default;
};

struct GraphKeyHash {
  std::size_t operator()(const GraphKey& key) const noexcept;
};

}  // namespace fmhax::detail
