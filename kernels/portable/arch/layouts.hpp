/// @file What host code has to know of the architecture, too: the backward kernels' tiles, the order of dq_acc.
#pragma once

#include <string_view>

#include "dq_acc_order.hpp"
#include "fmhax/contract/kernel_entry.hpp"
#include "fmhax/contract/platform_macros.hpp"

namespace fmhax::portable {

enum class TileSet {
  nvidia,
  cdna3,  ///< gfx90a, gfx942: 64 KiB of shared memory
  cdna4,  ///< gfx950: 160 KiB, and matrix instructions of twice the depth
  rdna4   ///< gfx1200, gfx1201: 32 lanes with at most 256 registers each, 64 KiB
};

FMHAX_HOST_DEVICE constexpr int warp_size(TileSet set) {
  return set == TileSet::cdna3 || set == TileSet::cdna4 ? 64 : 32;
}

/// A device's, as the host chooses it.
inline TileSet tile_set(const DeviceTraits& traits) {
#if defined(__HIP_PLATFORM_AMD__)
  if (std::string_view(traits.arch).starts_with("gfx120")) return TileSet::rdna4;
  return traits.shared_memory_per_block >= 160 * 1024 ? TileSet::cdna4 : TileSet::cdna3;
#else
  (void)traits;
  return TileSet::nvidia;
#endif
}

/// The one that device code is compiled for; of no meaning to host code.
#if defined(__gfx950__)
inline constexpr TileSet kTileSet = TileSet::cdna4;
#elif defined(__GFX12__)
inline constexpr TileSet kTileSet = TileSet::rdna4;
#elif defined(__HIP_PLATFORM_AMD__)
inline constexpr TileSet kTileSet = TileSet::cdna3;
#else
inline constexpr TileSet kTileSet = TileSet::nvidia;
#endif

/// Of shared memory that a block of every AMD GPU may have. Host code, which doesn't know kTileSet, computes a launch's
/// share: tiles that all AMD GPUs have in common fit this.
inline constexpr int kSharedBytesOfAmd = 64 * 1024;

#if defined(__HIP_PLATFORM_AMD__)
using DqOrder = QuadsByElements;
#else
using DqOrder = QuadsByRows;
#endif

}  // namespace fmhax::portable
