/// @file What can only be known of a HIP runtime by trying.
#pragma once

namespace fmhax::detail {

/// Whether changing an executable's nodes changes what the next launch does: some runtimes report success and run the
/// old parameters. Tried once per process on the current device, on a stream of its own; waits for that stream the
/// first time. False when the trial itself fails, or with FMHAX_REBUILD_GRAPHS=1 in the environment.
bool node_parameters_can_be_changed() noexcept;

/// Whether a host function in a graph runs once with each launch and at no other time: some runtimes refuse it, or run
/// it while the graph is built. Tried once per process in the same way. False when the trial itself fails (then the
/// next call tries again), or with FMHAX_NO_GRAPH_HOST_FUNCTIONS=1 in the environment.
bool graphs_run_host_functions() noexcept;

}  // namespace fmhax::detail
