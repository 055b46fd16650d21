/// @file What the instruction-set independent kernels ask of the arithmetic on one tile: plain data and a
/// table of functions, one table for each instruction set and element type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fmhax::cpu {

inline constexpr std::int64_t kM0 = 64;   ///< query rows of a tile
inline constexpr std::int64_t kN0 = 128;  ///< key rows of a tile
inline constexpr std::int64_t kMaxHdim = 256;
inline constexpr std::int64_t kKeyAlignment = 16;  ///< the longest vector, in floats

// Everything that a block needs, carved anew for each head dimension so that it stays compact in L2. For
// hdim 256, in floats: K, dK, dV; K^T, V^T; Q, dO, dQ; P, dS, with rows padded by up to 16 floats.
inline constexpr std::size_t kScratchFloats =
    3 * kN0 * (kMaxHdim + 16) + 2 * kMaxHdim * (kN0 + 16) + 3 * kM0 * (kMaxHdim + 16) + 2 * kM0 * (kN0 + 16);

// Behind it, matrices of kM0 query rows by kN0 keys: two for the features' operands, one to sum dbias in.
inline constexpr std::int64_t kFeatureStride = kN0 + kKeyAlignment;  ///< an odd number of cache lines
inline constexpr std::size_t kFeatureTileFloats = kM0 * kFeatureStride;
inline constexpr std::size_t kAllScratchFloats = kScratchFloats + 3 * kFeatureTileFloats;

// The structures below have no constructors on purpose: they are shared with code for other instruction sets.

/// Rows of an input or output in the problem's type: element (r, d) is element r * stride + d.
struct InputRows {
  const void* data;
  std::int64_t stride;
};
struct OutputRows {
  void* data;
  std::int64_t stride;
};
/// One float for each row, of lse and d: row r at data[r * stride].
struct RowValues {
  const float* data;
  std::int64_t stride;
};

/// The keys of one tile.
struct KeyTile {
  InputRows k;
  InputRows v;
  std::int64_t keys;  ///< 1 … kN0
  std::int64_t hdim_q;
  std::int64_t hdim_v;
};

/// Which keys of the tile the query rows see: row m sees keys n with
/// max(key_begin, m + visible_begin) <= n < min(key_end, m + visible_end).
struct TileVisibility {
  std::int64_t key_begin;  ///< what lies outside of [key_begin, key_end) no row sees; a multiple of kKeyAlignment
  std::int64_t key_end;
  bool is_masked;  ///< false: every row sees all of [key_begin, key_end), so visible_* need not be looked at
  std::int32_t visible_begin;
  std::int32_t visible_end;
};

/// What makes logits and probabilities other than plain. Matrices as kFeatureStride says, row m for query row m of the
/// tile, column n for key n; numbers up to the end of the last key's vector.
struct TileFeatures {
  const float* bias;  ///< added to the logits; null: nothing is
  const float* keep;  ///< what dropout multiplies with; null: nothing
  float softcap;      ///< 0: none
};

/// Query rows that meet a key tile.
struct QueryTile {
  InputRows q;
  InputRows dout;
  RowValues lse;
  RowValues d;
  std::int64_t rows;  ///< 1 … kM0
  float scale;
  TileVisibility visibility;
  const TileFeatures* features;  ///< null: none of them
  float sink;                    ///< forward only; -inf: none
};

/// Functions on one tile; `scratch` is kScratchFloats floats, 64-byte aligned, private to the caller.
struct TileOps {
  // Backward: load_keys, then backward for each query tile (dQ is left, unscaled, in the scratch memory
  // until the next), then store_key_gradients.
  void (*load_keys)(float* scratch, const KeyTile& keys);
  void (*backward)(float* scratch, const KeyTile& keys, const QueryTile& queries);
  /// In place of backward: adds dS, by logits, to `sum`, a matrix as kFeatureStride says; needs features.
  void (*add_bias_gradient)(float* scratch, const KeyTile& keys, const QueryTile& queries, float* sum);
  void (*store_key_gradients)(float* scratch, const KeyTile& keys, float scale, OutputRows dk, OutputRows dv);
  /// dQ to `rows` contiguous rows of dq_acc, overwriting or adding.
  void (*write_dq_acc)(float* scratch, const KeyTile& keys, std::int64_t rows, float* dq_acc, bool adds);
  /// dQ * scale in the problem's type.
  void (*store_dq)(float* scratch, const KeyTile& keys, std::int64_t rows, float scale, OutputRows dq);

  /// d[r * d_stride] = dot product of row r of a and of b.
  void (*dot_rows)(InputRows a, InputRows b, std::int64_t rows, std::int64_t hdim, float* d, std::int64_t d_stride);
  /// dq = scale * (sum over splits, in order, of contiguous rows of hdim floats split_stride apart).
  void (*reduce_splits)(const float* dq_acc, std::int64_t nsplits, std::int64_t split_stride, std::int64_t rows,
                        std::int64_t hdim, float scale, OutputRows dq);

  // Forward: begin, then forward_keys for each key tile in order, then store. The query tile's dout, lse, d
  // are not used.
  void (*begin_forward)(float* scratch, const KeyTile& shape, const QueryTile& queries);
  void (*forward_keys)(float* scratch, const KeyTile& keys, const QueryTile& queries);
  /// o, and lse[r * lse_stride]; rows that saw no key get 0 and the sink.
  void (*store_forward)(float* scratch, const KeyTile& shape, std::int64_t rows, OutputRows o, float* lse,
                        std::int64_t lse_stride);

  // The building blocks, for tests and for rows of biases.
  void (*widen)(const void* from, std::int64_t size, float* to);  ///< size: a multiple of 8
  void (*narrow)(const float* from, std::int64_t size, void* to);
  void (*exponential)(const float* from, std::int64_t size, float* to);  ///< size: a multiple of 16
  /// C (+)= A * B with column counts that are multiples of 16; A stored depth x rows if transposed.
  void (*gemm)(bool transposed_a, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
               float* c, std::int64_t c_stride, std::int64_t rows, std::int64_t columns, std::int64_t depth,
               bool accumulate);
};

}  // namespace fmhax::cpu
