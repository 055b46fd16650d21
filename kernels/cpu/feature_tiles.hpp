/// @file What the features bring to one tile of query rows by keys, as plain matrices for the tile arithmetic.
#pragma once

#include "fmhax/contract/philox.hpp"
#include "fmhax/contract/sequence.hpp"
#include "rows.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu {

/// One query head of one sequence.
struct HeadPlace {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  SequenceRange q{};
  SequenceRange k{};
};

/// Fills the tiles of one block. Cheap to make; reads seed and offset when made.
class FeatureTiles {
 public:
  FeatureTiles(const KernelParams& params, const TileOps& ops, float* scratch) noexcept;

  /// Null when the problem's logits and probabilities are plain. Rows and keys count within the sequence, keys begin a
  /// tile. Valid until the next call.
  const TileFeatures* load(const HeadPlace& place, IndexRange rows, IndexRange keys) noexcept;

  /// Stores dropout's bytes where the problem asks for them.
  void store_random_values(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept;

 private:
  void load_bias(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept;
  void load_alibi(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept;
  void load_keep(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept;

  const KernelParams& params_;
  const TileOps& ops_;
  float* bias_;
  float* keep_;
  DropoutStream stream_{};
  TileFeatures features_{};
};

/// Rows of any number of elements between the problem's type and floats; up to 7 floats after the last of `to` are
/// written, with 0.
void widen_row(const TileOps& ops, DataType dtype, const void* from, std::int64_t count, float* to) noexcept;
void narrow_row(const TileOps& ops, DataType dtype, const float* from, std::int64_t count, void* to) noexcept;

}  // namespace fmhax::cpu
