/// @file Choosing and launching a backward kernel: pure functions, so that tests need no GPU.
#pragma once

#include "backward_arguments.hpp"
#include "backward_config.hpp"
#include "backward_instances.hpp"
#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::portable {

/// Anything that only a kernel with has_features computes.
bool needs_features(const Problem& problem);

/// Whether the kernel with has_features runs a problem that one without might: its tiles are smaller, so it also serves
/// GPUs with less shared memory, and it takes rows that aren't aligned to 16 bytes.
bool takes_full_kernel(const BackwardConfig& plain, const Problem& problem, const DeviceTraits& traits,
                       bool is_aligned);

/// Null when kernels for these rounded head dimensions can run the problem, else the reason.
const char* unsupported_reason(const BackwardConfig& config, const Problem& problem, const DeviceTraits& traits);

WorkspaceSpec workspace_spec(const BackwardConfig& config, const Problem& problem);

/// Key heads whose key tiles run side by side, longest first. With a mask tiles take different times, which even out
/// over as many heads as fit the cache with what they read and add to, and over no fewer than give each multiprocessor
/// a few. Without a mask a head at a time is best.
SectionLimits section_limits(const Problem& problem, const DeviceTraits& traits);

/// `functions` are those of the data type and the head dimensions.
bool form_backward(bool is_direct, const BackwardFunctions& functions, int hdim_q, int hdim_v,
                   const DeviceTraits& traits, const KernelParams& params, KernelLaunch& launch);

}  // namespace fmhax::portable
