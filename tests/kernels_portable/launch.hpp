/// @file Playing a kernel launch by itself.
#pragma once

#include "fmhax/contract/kernel_entry.hpp"

namespace fmhax::portable::test {

/// A device as the kernels' host side sees it: few multiprocessors, so that blocks have to loop.
DeviceTraits small_device();

/// Runs the launch, if it has blocks, and waits for it. Throws fmhax::Error(hip) when it fails.
void play(const KernelLaunch& launch);

}  // namespace fmhax::portable::test
