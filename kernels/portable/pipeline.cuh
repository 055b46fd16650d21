/// @file Products fed from shared memory: operands are loaded a few products ahead of their use.
#pragma once

#include "mma.cuh"

namespace fmhax::portable {

#ifndef AHEAD
#define AHEAD 2
#endif
inline constexpr int kOperandsAhead = AHEAD;

/// use(i, load(i)) for i in [0, kCount), each operand loaded kOperandsAhead uses early. Everything is unrolled, so that
/// an index taken from i is a constant.
template <int kCount, class Load, class Use>
__device__ inline void pipeline(Load&& load, Use&& use) {
  constexpr int kRing = kOperandsAhead + 1;
  Operand ring[kRing];
#pragma unroll
  for (int i = 0; i < kOperandsAhead && i < kCount; ++i) ring[i] = load(i);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i + kOperandsAhead < kCount) ring[(i + kOperandsAhead) % kRing] = load(i + kOperandsAhead);
    use(i, ring[i % kRing]);
  }
}

}  // namespace fmhax::portable
