/// @file The features of one query head in the reference, from their definitions. The random bytes come from the
/// contract's generator, which has its own test against published numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "fmhax/contract/philox.hpp"
#include "verification/reference.hpp"

namespace fmhax::verification {

/// Both sides of one sequence.
struct Sequence {
  std::int64_t index = 0;
  SequencePlace q;
  SequencePlace k;
};

/// Rows and keys are counted within the sequence.
template <typename Real>
class HeadFeatures {
 public:
  HeadFeatures(const AttentionInputs& in, const Sequence& sequence, std::int64_t head)
      : problem_(in.problem),
        features_(in.features),
        sequence_(sequence),
        head_(head),
        softcap_(static_cast<Real>(in.features.softcap)),
        keep_scale_(static_cast<Real>(1) / (static_cast<Real>(1) - static_cast<Real>(in.features.dropout.probability))),
        stream_(dropout_stream(in.features.dropout.seed, in.features.dropout.offset)) {}

  /// S of a pair whose scaled product is x.
  Real logit(Real x, std::int64_t i, std::int64_t j) const {
    const Real capped = problem_.has_softcap ? softcap_ * std::tanh(x / softcap_) : x;
    switch (problem_.bias) {
      case BiasKind::elementwise:
        return capped + static_cast<Real>(bias(i, j));
      case BiasKind::alibi:
        return capped + alibi(i, j);
      case BiasKind::none:
        break;
    }
    return capped;
  }

  /// dS/dx.
  Real slope(Real x) const {
    if (!problem_.has_softcap) return 1;
    const Real t = std::tanh(x / softcap_);
    return 1 - t * t;
  }

  std::uint32_t random_byte(std::int64_t i, std::int64_t j) {
    if (i != drawn_row_ || j / kDropoutKeys != drawn_block_) {
      drawn_row_ = i;
      drawn_block_ = j / kDropoutKeys;
      drawn_ = dropout_bytes(stream_, sequence_.index * problem_.nhead_q + head_, i, drawn_block_);
    }
    return dropout_byte(drawn_, j % kDropoutKeys);
  }

  /// What dropout multiplies P with; 1 without dropout.
  Real keep(std::int64_t i, std::int64_t j) {
    if (!problem_.has_dropout) return 1;
    const bool is_kept = random_byte(i, j) <= dropout_threshold(features_.dropout.probability);
    return is_kept ? keep_scale_ : 0;
  }

  bool has_sink() const { return problem_.has_sink; }
  double sink() const { return features_.sink[static_cast<std::size_t>(head_)]; }

 private:
  double bias(std::int64_t i, std::int64_t j) const {
    const DenseTensor& bias = features_.bias;
    return bias.row(bias.batch == 1 ? 0 : sequence_.q.batch_index, sequence_.q.start + i,
                    bias.nhead == 1 ? 0 : head_)[j];
  }

  Real alibi(std::int64_t i, std::int64_t j) const {
    const auto heads = static_cast<std::size_t>(problem_.nhead_q);
    const bool is_per_sequence = features_.alibi_slopes.size() > heads;
    const std::size_t first = is_per_sequence ? static_cast<std::size_t>(sequence_.index) * heads : 0;
    const auto slope = static_cast<Real>(features_.alibi_slopes[first + static_cast<std::size_t>(head_)]);
    switch (problem_.alibi_form) {
      case AlibiForm::distance_top_left:
        return -slope * static_cast<Real>(std::abs(i - j));
      case AlibiForm::distance_bottom_right:
        return -slope * static_cast<Real>(std::abs(i + sequence_.k.length - sequence_.q.length - j));
      case AlibiForm::column:
        break;
    }
    return slope * static_cast<Real>(j);
  }

  const Problem& problem_;
  const FeatureInputs& features_;
  Sequence sequence_;
  std::int64_t head_;
  Real softcap_;
  Real keep_scale_;
  DropoutStream stream_;
  PhiloxWords drawn_{};
  std::int64_t drawn_row_ = -1;
  std::int64_t drawn_block_ = -1;
};

}  // namespace fmhax::verification
