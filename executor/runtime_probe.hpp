/// @file What can only be known of a HIP runtime by trying.
#pragma once

namespace fmhax::detail {

/// Whether changing an executable's nodes changes what the next launch does: some runtimes report success and run the
/// old parameters. Tried once per process on the current device, on a stream of its own; waits for that stream the
/// first time. False when the trial itself fails, or with FMHAX_REBUILD_GRAPHS=1 in the environment.
bool node_parameters_can_be_changed() noexcept;

}  // namespace fmhax::detail
