/// @file What a backward kernel is compiled for, and which kernel that is for a head dimension: plain data and pure
/// functions, shared by host and device.
#pragma once

#include <cstdint>

#include "arch/layouts.hpp"
#include "fmhax/contract/problem.hpp"

namespace fmhax::portable {

/// A block owns kN keys of one key head and walks over query tiles of kM rows. hdim_split neighbouring warps share
/// 16 * key_tiles keys: with 1 the probabilities never leave the registers; with 2 each warp scores half of the rows,
/// gets the others' probabilities through shared memory and keeps half of the columns of dk and dv. That halves the
/// registers that a key takes, for large head dimensions or for more keys a warp, which spare reads of shared memory.
struct BackwardConfig {
  DataType dtype = DataType::bf16;
  int hdim_q = 128;  ///< rounded up
  int hdim_v = 128;
  int kM = 64;
  int lanes = 32;  ///< of a warp
  int warps = 8;
  int key_tiles = 1;
  int hdim_split = 1;
  int dq_warps_m = 2;  ///< warps along the rows of the dq tile; the others share its columns
  int dq_unroll = 4;   ///< products of 16 keys at once, on the way to dq
  int stages = 2;      ///< of q and dout in shared memory
  /// Each warp has its rows of k and v in registers, and shared memory has k and dS along the keys, for dq; else k and
  /// v lie there as they are. For GPUs whose matrix units read memory along the depth alone.
  bool holds_keys = false;
  /// A warp has a matrix unit to itself and registers enough: what keeps the unit waiting is time lost.
  bool is_alone = false;
  bool is_available = true;   ///< there are tiles for these head dimensions
  bool is_direct = false;     ///< all keys fit the tile: dq is complete in the block, d is computed on the way
  bool has_features = false;  ///< bias, ALiBi, soft-cap, dropout; rows that aren't aligned

  static constexpr int kJobBytes = 256;  ///< what else a block shares

  FMHAX_HOST_DEVICE constexpr int tile_keys() const { return 16 * key_tiles * warps / hdim_split; }
  /// The warps share each of their products evenly.
  constexpr bool is_consistent() const {
    const int dq_warps_n = warps / dq_warps_m;
    return warps % hdim_split == 0 && dq_warps_m * dq_warps_n == warps && kM % (16 * dq_warps_m) == 0 &&
           hdim_q % (16 * dq_warps_n) == 0 && kM % (16 * hdim_split) == 0 && hdim_q % (16 * hdim_split) == 0 &&
           hdim_v % (16 * hdim_split) == 0 && (kM % threads() == 0 || threads() % kM == 0);
  }
  FMHAX_HOST_DEVICE constexpr int threads() const { return lanes * warps; }
  // Rows of shared memory are padded by 16 bytes: eight successive rows begin in different banks.
  FMHAX_HOST_DEVICE constexpr int pitch_q() const { return hdim_q + 8; }
  FMHAX_HOST_DEVICE constexpr int pitch_v() const { return hdim_v + 8; }
  FMHAX_HOST_DEVICE constexpr int pitch_k() const { return holds_keys ? tile_keys() + 8 : pitch_q(); }
  FMHAX_HOST_DEVICE constexpr int pitch_s() const { return holds_keys ? tile_keys() + 8 : kM + 8; }
  // Elements of shared memory; ds in two stages, q and dout in `stages`.
  FMHAX_HOST_DEVICE constexpr int k_elements() const { return (holds_keys ? hdim_q : tile_keys()) * pitch_k(); }
  FMHAX_HOST_DEVICE constexpr int v_elements() const { return holds_keys ? 0 : tile_keys() * pitch_v(); }
  FMHAX_HOST_DEVICE constexpr int q_elements() const { return kM * pitch_q(); }
  FMHAX_HOST_DEVICE constexpr int dout_elements() const { return kM * pitch_v(); }
  FMHAX_HOST_DEVICE constexpr int ds_elements() const { return (holds_keys ? kM : tile_keys()) * pitch_s(); }
  FMHAX_HOST_DEVICE constexpr int p_elements() const { return hdim_split > 1 ? ds_elements() : 0; }
  FMHAX_HOST_DEVICE constexpr int shared_bytes() const {
    const int staged = stages * (q_elements() + dout_elements()) + 2 * ds_elements();
    return 2 * (k_elements() + v_elements() + staged + p_elements()) + 2 * 2 * kM * 4 + kJobBytes;
  }
};

FMHAX_HOST_DEVICE constexpr void set_nvidia_tiles(BackwardConfig& config) {
  const int widest = config.hdim_q > config.hdim_v ? config.hdim_q : config.hdim_v;
  config.key_tiles = widest <= 128 ? 2 : 1;
  config.hdim_split = 2;
  if (config.is_direct && widest <= 64) {
    // Two blocks on a multiprocessor: short sequences wait for memory more than for anything else.
    config.warps = 4;
    config.hdim_split = 1;
    config.kM = 32;
  } else if (widest < 128) {
    config.dq_warps_m = 4;
    if (widest == 64 && !config.has_features) config.kM = 128;
    if (widest >= 64) config.dq_unroll = 8;
  } else if (config.is_direct || config.has_features) {
    config.kM = 32;  // features need registers of their own
  }
}

/// Four warps, one for each matrix unit of a compute unit, with all of its 512 registers: many keys, few rows.
FMHAX_HOST_DEVICE constexpr void set_cdna_tiles(BackwardConfig& config, TileSet set) {
  const int widest = config.hdim_q > config.hdim_v ? config.hdim_q : config.hdim_v;
  config.lanes = 64;
  config.warps = 4;
  config.is_alone = true;
  config.holds_keys = true;
  config.dq_unroll = 4;
  if (set == TileSet::cdna4) {
    // Features need registers of their own, and so does d.
    config.kM = widest > 128 || (widest == 128 && config.is_direct && config.has_features) ? 16 : 32;
    config.key_tiles = widest <= (config.is_direct ? 128 : 192) ? 2 : 1;
  } else {
    config.kM = widest <= 96 ? 32 : 16;
    config.key_tiles = widest <= 64 || widest == 128 ? 2 : 1;
    if (widest > 192) config.stages = 1;
  }
  config.dq_warps_m = config.hdim_q % 64 == 0 ? 1 : 2;
}

/// At most 256 registers a lane: two warps share sixteen keys and halve the columns of dk and dv, and more than 128
/// columns don't fit. Other head dimensions than 64 and 128 run in the next larger kernel.
FMHAX_HOST_DEVICE constexpr void set_rdna_tiles(BackwardConfig& config) {
  const int widest = config.hdim_q > config.hdim_v ? config.hdim_q : config.hdim_v;
  config.is_available = config.hdim_q % 64 == 0 && widest <= 128;
  config.hdim_split = 2;
  config.holds_keys = true;
  config.kM = 32;
  config.dq_unroll = 2;
  if (widest > 64) config.stages = 1;
}

/// The kernel for head dimensions rounded up to (hdim_q, hdim_v). Tiles are as large as registers and shared memory
/// allow; figures in docs/kernels.md and docs/amd.md.
FMHAX_HOST_DEVICE constexpr BackwardConfig backward_config(TileSet set, DataType dtype, int hdim_q, int hdim_v,
                                                           bool is_direct, bool has_features) {
  BackwardConfig config{.dtype = dtype, .hdim_q = hdim_q, .hdim_v = hdim_v};
  config.is_direct = is_direct;
  config.has_features = has_features;
  if (set == TileSet::nvidia) {
    set_nvidia_tiles(config);
  } else if (set == TileSet::rdna4) {
    set_rdna_tiles(config);
  } else {
    set_cdna_tiles(config, set);
  }
  return config;
}

}  // namespace fmhax::portable
