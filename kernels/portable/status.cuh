/// @file Reporting a call's status to the host while the kernel runs.
#pragma once

#include "arch/arch.cuh"
#include "fmhax/contract/params.hpp"

namespace fmhax::portable {

/// For one thread of the call; this is check number `checks`. The code goes last: whoever sees it sees the fields that
/// belong to it.
__device__ inline void report(const CallStatus& found, std::int64_t checks, CallStatus& to) {
  arch::store_for_host(&to.side, found.side);
  arch::store_for_host(&to.sequence, found.sequence);
  arch::store_for_host(&to.value, found.value);
  arch::store_for_host(&to.limit, found.limit);
  arch::store_for_host(&to.checks, checks);
  arch::fence_for_host();
  arch::store_for_host(&to.code, found.code);
}

}  // namespace fmhax::portable
