/// @file What a backward kernel is compiled for, and which kernel that is for a head dimension: plain data and pure
/// functions, shared by host and device.
#pragma once

#include <cstdint>

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
  int warps = 8;
  int key_tiles = 1;
  int hdim_split = 1;
  int dq_warps_m = 2;         ///< warps along the rows of the dq tile; the others share its columns
  int dq_unroll = 4;          ///< products of 16 keys at once, on the way to dq
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
  FMHAX_HOST_DEVICE constexpr int threads() const { return 32 * warps; }
  // Rows of shared memory are padded by 16 bytes: eight successive rows begin in different banks.
  FMHAX_HOST_DEVICE constexpr int pitch_q() const { return hdim_q + 8; }
  FMHAX_HOST_DEVICE constexpr int pitch_v() const { return hdim_v + 8; }
  FMHAX_HOST_DEVICE constexpr int pitch_s() const { return kM + 8; }
  // Elements of shared memory; q, dout and ds in two stages.
  FMHAX_HOST_DEVICE constexpr int k_elements() const { return tile_keys() * pitch_q(); }
  FMHAX_HOST_DEVICE constexpr int v_elements() const { return tile_keys() * pitch_v(); }
  FMHAX_HOST_DEVICE constexpr int q_elements() const { return kM * pitch_q(); }
  FMHAX_HOST_DEVICE constexpr int dout_elements() const { return kM * pitch_v(); }
  FMHAX_HOST_DEVICE constexpr int ds_elements() const { return tile_keys() * pitch_s(); }
  FMHAX_HOST_DEVICE constexpr int p_elements() const { return hdim_split > 1 ? ds_elements() : 0; }
  FMHAX_HOST_DEVICE constexpr int shared_bytes() const {
    const int staged = q_elements() + dout_elements() + ds_elements();
    return 2 * (k_elements() + v_elements() + 2 * staged + p_elements()) + 2 * 2 * kM * 4 + kJobBytes;
  }
};

/// The kernel for head dimensions rounded up to (hdim_q, hdim_v). Tiles are as large as registers and shared memory
/// allow; figures in docs/kernels.md.
FMHAX_HOST_DEVICE constexpr BackwardConfig backward_config(DataType dtype, int hdim_q, int hdim_v, bool is_direct,
                                                           bool has_features) {
  BackwardConfig config{.dtype = dtype, .hdim_q = hdim_q, .hdim_v = hdim_v};
  config.is_direct = is_direct;
  config.has_features = has_features;
  const int widest = hdim_q > hdim_v ? hdim_q : hdim_v;
  config.key_tiles = widest <= 128 ? 2 : 1;
  config.hdim_split = 2;
  if (is_direct && widest <= 64) {
    // Two blocks on a multiprocessor: short sequences wait for memory more than for anything else.
    config.warps = 4;
    config.hdim_split = 1;
    config.kM = 32;
  } else if (widest < 128) {
    config.dq_warps_m = 4;
    if (widest == 64 && !has_features) config.kM = 128;
    if (widest >= 64) config.dq_unroll = 8;
  } else if (is_direct || has_features) {
    config.kM = 32;  // features need registers of their own
  }
  return config;
}

}  // namespace fmhax::portable
