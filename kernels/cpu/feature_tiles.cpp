#include "feature_tiles.hpp"

#include <algorithm>
#include <cstring>

namespace fmhax::cpu {
namespace {

static_assert(kN0 % kDropoutKeys == 0, "a tile begins with a block of the generator");
constexpr std::int64_t kUnit = 8;  ///< elements that TileOps::widen and narrow take a multiple of

float* row_of(float* tile, std::int64_t row) { return tile + row * kFeatureStride; }

/// Zeroes from column `count` up to whole vectors: such lanes are computed and thrown away.
void clear_tail(float* row, std::int64_t count) {
  std::fill(row + count, row + (count + kKeyAlignment - 1) / kKeyAlignment * kKeyAlignment, 0.0F);
}

}  // namespace

void widen_row(const TileOps& ops, DataType dtype, const void* from, std::int64_t count, float* to) noexcept {
  const std::int64_t whole = count / kUnit * kUnit;
  ops.widen(from, whole, to);
  if (whole == count) return;
  alignas(16) unsigned char rest[kUnit * sizeof(float)] = {};
  std::memcpy(rest, static_cast<const unsigned char*>(from) + whole * element_size(dtype),
              static_cast<std::size_t>((count - whole) * element_size(dtype)));
  ops.widen(rest, kUnit, to + whole);
}

void narrow_row(const TileOps& ops, DataType dtype, const float* from, std::int64_t count, void* to) noexcept {
  const std::int64_t whole = count / kUnit * kUnit;
  ops.narrow(from, whole, to);
  if (whole == count) return;
  float values[kUnit] = {};
  std::copy(from + whole, from + count, values);
  alignas(16) unsigned char rest[kUnit * sizeof(float)];
  ops.narrow(values, kUnit, rest);
  std::memcpy(static_cast<unsigned char*>(to) + whole * element_size(dtype), rest,
              static_cast<std::size_t>((count - whole) * element_size(dtype)));
}

FeatureTiles::FeatureTiles(const KernelParams& params, const TileOps& ops, float* scratch) noexcept
    : params_(params), ops_(ops), bias_(scratch + kScratchFloats), keep_(bias_ + kFeatureTileFloats) {
  const Problem& p = params.problem;
  if (p.has_dropout) stream_ = dropout_stream(params.dropout);
  features_.bias = p.bias == BiasKind::none ? nullptr : bias_;
  features_.keep = p.has_dropout ? keep_ : nullptr;
  features_.softcap = p.has_softcap ? params.softcap : 0.0F;
}

const TileFeatures* FeatureTiles::load(const HeadPlace& place, IndexRange rows, IndexRange keys) noexcept {
  const Problem& p = params_.problem;
  if (p.bias == BiasKind::elementwise) load_bias(place, rows, keys);
  if (p.bias == BiasKind::alibi) load_alibi(place, rows, keys);
  if (p.has_dropout) load_keep(place, rows, keys);
  const bool has_any = features_.bias != nullptr || features_.keep != nullptr || features_.softcap != 0.0F;
  return has_any ? &features_ : nullptr;
}

void FeatureTiles::load_bias(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept {
  const Problem& p = params_.problem;
  const std::int64_t count = keys.end - keys.begin;
  const InputRows from = input_rows(params_.bias, p, place.sequence, place.q.start + rows.begin, place.head);
  const std::int64_t size = element_size(p.dtype);
  const auto* first = static_cast<const unsigned char*>(from.data) + keys.begin * size;
  for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
    float* row = row_of(bias_, r);
    clear_tail(row, count);
    widen_row(ops_, p.dtype, first + r * from.stride * size, count, row);
  }
}

void FeatureTiles::load_alibi(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept {
  const Problem& p = params_.problem;
  const float slope = params_.alibi_slopes[place.sequence * params_.alibi_stride_batch + place.head];
  const std::int64_t count = keys.end - keys.begin;
  for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
    float* row = row_of(bias_, r);
    clear_tail(row, count);
    for (std::int64_t n = 0; n < count; ++n) {
      row[n] = slope * static_cast<float>(alibi_distance(p.alibi_form, place.q.logical, place.k.logical, rows.begin + r,
                                                         keys.begin + n));
    }
  }
}

void FeatureTiles::load_keep(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept {
  const std::int64_t head = place.sequence * params_.problem.nhead_q + place.head;
  const std::uint32_t threshold = dropout_threshold(params_.dropout.probability);
  const float scale = dropout_scale(params_.dropout.probability);
  for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
    float* row = row_of(keep_, r);
    for (std::int64_t n = 0; n < keys.end - keys.begin; n += kDropoutKeys) {
      const PhiloxWords words = dropout_bytes(stream_, head, rows.begin + r, (keys.begin + n) / kDropoutKeys);
      for (std::int64_t i = 0; i < kDropoutKeys; ++i) row[n + i] = dropout_byte(words, i) <= threshold ? scale : 0.0F;
    }
  }
}

void FeatureTiles::store_random_values(const HeadPlace& place, IndexRange rows, IndexRange keys) const noexcept {
  const Problem& p = params_.problem;
  if (!p.stores_random_values) return;
  const TensorRef& to = params_.random_values;
  const std::int64_t head = place.sequence * p.nhead_q + place.head;
  const std::int64_t batch = p.is_group_mode ? 0 : place.sequence;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    auto* bytes = static_cast<std::uint8_t*>(to.data) + batch * to.stride_batch +
                  (place.q.start + row) * to.stride_seqlen + place.head * to.stride_nhead;
    for (std::int64_t key = keys.begin; key < keys.end; key += kDropoutKeys) {
      const PhiloxWords words = dropout_bytes(stream_, head, row, key / kDropoutKeys);
      const std::int64_t count = std::min(kDropoutKeys, keys.end - key);
      for (std::int64_t i = 0; i < count; ++i) bytes[key + i] = static_cast<std::uint8_t>(dropout_byte(words, i));
    }
  }
}

}  // namespace fmhax::cpu
