/// @file Which keys a row sees, in 32 bits.
#pragma once

#include "backward_arguments.hpp"
#include "fmhax/contract/sequence.hpp"

namespace fmhax::portable {

/// A band as seen from one row and one key, from which others are counted: by constants, so that each pair costs three
/// comparisons with them and no branch.
struct LocalBand {
  int low, high;  ///< of key - row
  int last_key;

  __device__ bool hides(int row, int key) const {
    return (static_cast<int>(key - row < low) | static_cast<int>(key - row > high) |
            static_cast<int>(key > last_key)) != 0;
  }
};

/// Row i of a sequence sees keys i + low .. i + high, as far as the sequence has them. visible_keys() of the
/// contract says the same of one row, this of all.
struct Band {
  int low = 0, high = 0;

  __device__ LocalBand from(int row, int key, int seqlen_k) const {
    return {low + row - key, high + row - key, seqlen_k - 1 - key};
  }

  __device__ static Band of(const Mask& mask, int seqlen_q, int seqlen_k) {
    constexpr std::int64_t kFar = kMaxSeqlen;
    const std::int64_t offset = mask_offset(mask, seqlen_q, seqlen_k);
    return {static_cast<int>(mask.window_left < 0 ? -kFar : clamp_index(offset - mask.window_left, -kFar, kFar)),
            static_cast<int>(mask.window_right < 0 ? kFar : clamp_index(offset + mask.window_right, -kFar, kFar))};
  }
};

}  // namespace fmhax::portable
