/// @file What a backward kernel is compiled for: one instance, one of these.
#pragma once

#include <cstdint>

#include "fmhax/contract/problem.hpp"

namespace fmhax::portable {

/// A block owns kN keys of one key head and walks over query tiles of kM rows. Each group of hdim_split warps shares 16
/// keys: with 1 the probabilities never leave the registers; with 2 each warp scores half of the rows, exchanges them
/// through shared memory and keeps half of the columns of dk and dv, which is what large head dimensions need.
struct BackwardConfig {
  DataType dtype = DataType::bf16;
  int hdim_q = 128;  ///< rounded up
  int hdim_v = 128;
  int kM = 64;
  int warps = 8;
  int hdim_split = 1;
  int dq_warps_m = 2;  ///< warps along the rows of the dq tile; the others share its columns
  int blocks_per_multiprocessor = 1;
  bool is_direct = false;     ///< all keys fit the tile: dq is complete in the block, d is computed on the way
  bool has_features = false;  ///< anything that changes logits or gradients beyond scale and mask

  constexpr int kN() const { return 16 * warps / hdim_split; }
  constexpr int threads() const { return 32 * warps; }
  // Rows of shared memory are padded by 16 bytes: eight successive rows begin in different banks.
  constexpr int pitch_q() const { return hdim_q + 8; }
  constexpr int pitch_v() const { return hdim_v + 8; }
  constexpr int pitch_s() const { return kM + 8; }
  // Elements of shared memory; q, dout and ds in two stages.
  constexpr int k_elements() const { return kN() * pitch_q(); }
  constexpr int v_elements() const { return kN() * pitch_v(); }
  constexpr int q_elements() const { return kM * pitch_q(); }
  constexpr int dout_elements() const { return kM * pitch_v(); }
  constexpr int ds_elements() const { return kN() * pitch_s(); }
  constexpr int shared_bytes() const {
    const int p_elements = hdim_split > 1 ? ds_elements() : 0;
    const int elements =
        k_elements() + v_elements() + 2 * (q_elements() + dout_elements() + ds_elements()) + p_elements;
    return 2 * elements + 2 * 2 * kM * 4;
  }
};

}  // namespace fmhax::portable
