/// @file The forward pass of one query tile against one key tile. It works on S^T, keys by queries: Q^T is
/// made once for a block, and the softmax of a query runs down a column, so that no sum crosses lanes.
#pragma once

#include "tile/exp.hpp"
#include "tile/features.hpp"
#include "tile/scratch.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

struct ForwardScratch {
  Rows q_transposed, k, v, s, o;
  Rows bias, keep;  // the features' matrices, transposed as S is
  Rows statistics;  // row 0: running maximum, 1: running sum, 2: factor for what was summed so far
};

inline ForwardScratch carve_forward(float* memory, const KeyTile& shape) {
  Carver carver{memory};
  ForwardScratch s;
  s.q_transposed = carver.take(shape.hdim_q, kM0);
  s.k = carver.take(kN0, shape.hdim_q);
  s.v = carver.take(kN0, shape.hdim_v);
  s.s = carver.take(kN0, kM0);
  s.o = carver.take(kM0, shape.hdim_v);
  s.statistics = carver.take(3, kM0);
  s.bias = carver.take(kN0, kM0);
  s.keep = carver.take(kN0, kM0);
  return s;
}

inline Float minus_infinity() { return splat(-__builtin_inff()); }

template <class Element>
void begin_forward(float* memory, const KeyTile& shape, const QueryTile& queries) {
  const ForwardScratch s = carve_forward(memory, shape);
  const std::int64_t whole = round_up(queries.rows, kLanes);
  const Rows q{s.k.data, s.k.stride};  // only until it is transposed
  load_tile<Element>(queries.q, queries.rows, shape.hdim_q, q);
  fill_rows(q, queries.rows, whole, shape.hdim_q, 0.0F);
  transpose(as_const(q), whole, shape.hdim_q, s.q_transposed);
  fill_rows(s.o, 0, queries.rows, shape.hdim_v, 0.0F);
  // A sink is a key that was seen already, with no value.
  fill_rows(s.statistics, 0, 1, kM0, queries.sink);
  fill_rows(s.statistics, 1, 2, kM0, queries.sink == -__builtin_inff() ? 0.0F : 1.0F);
}

// One vector of queries, from column m on: S -> exp(scale * S - maximum), and the statistics.
template <bool kMasked, bool kHasFeatures>
FMHAX_CPU_THREAD_PRIVATE void softmax_columns(const ForwardScratch& s, const QueryTile& queries, std::int64_t keys,
                                              std::int64_t m) {
  const TileVisibility& visibility = queries.visibility;
  float* maximum_of = s.statistics.data + m;
  float* sum_of = maximum_of + s.statistics.stride;
  float* factor_of = sum_of + s.statistics.stride;
  float* column = s.s.data + m;
  const Int query = lane_numbers() + static_cast<std::int32_t>(m);
  const Float before = load(maximum_of);
  Float maximum = before;
  for (std::int64_t n = 0; n < keys; ++n) {
    Float x = load(column + n * s.s.stride) * queries.scale;
    if constexpr (kHasFeatures) {
      const TileFeatures& features = *queries.features;
      x = logits_of(x, features.softcap, features.bias != nullptr ? s.bias.data + n * s.bias.stride + m : nullptr)
              .value;
    }
    if constexpr (kMasked) {
      const Int first = query + visibility.visible_begin;
      const Int last = query + visibility.visible_end;
      const Int key = Int{} + static_cast<std::int32_t>(n + visibility.key_begin);
      const Int visible = (key >= first) & (key < last);
      x = visible ? x : minus_infinity();
    }
    maximum = x > maximum ? x : maximum;
    store(column + n * s.s.stride, x);
  }
  // Nothing seen so far: any finite value keeps exp(-inf - maximum) at 0.
  const Float reference = maximum == minus_infinity() ? Float{} : maximum;
  const Float factor = exponential(before - reference);
  Float sum = load(sum_of) * factor;
  for (std::int64_t n = 0; n < keys; ++n) {
    const Float p = exponential(load(column + n * s.s.stride) - reference);
    sum += p;
    if constexpr (kHasFeatures) {
      const bool has_keep = queries.features->keep != nullptr;
      store(column + n * s.s.stride, has_keep ? p * load(s.keep.data + n * s.keep.stride + m) : p);
    } else {
      store(column + n * s.s.stride, p);
    }
  }
  store(maximum_of, maximum);
  store(sum_of, sum);
  store(factor_of, factor);
}

template <class Element>
void forward_keys(float* memory, const KeyTile& keys, const QueryTile& queries) {
  const ForwardScratch s = carve_forward(memory, keys);
  const TileVisibility& visibility = queries.visibility;
  const std::int64_t begin = visibility.key_begin;
  const std::int64_t count = visibility.key_end - begin;
  load_tile<Element>({static_cast<const Element*>(keys.k.data) + begin * keys.k.stride, keys.k.stride}, count,
                     keys.hdim_q, s.k);
  load_tile<Element>({static_cast<const Element*>(keys.v.data) + begin * keys.v.stride, keys.v.stride}, count,
                     keys.hdim_v, s.v);
  gemm<false>(as_const(s.k), as_const(s.q_transposed), s.s, count, vectors(queries.rows), keys.hdim_q, false);
  const TileFeatures* features = queries.features;
  if (features != nullptr) {
    const std::int64_t rows = round_up(queries.rows, kLanes);
    if (features->bias != nullptr) {
      transpose({features->bias + begin, kFeatureStride}, rows, round_up(count, 4), s.bias);
    }
    if (features->keep != nullptr) {
      transpose({features->keep + begin, kFeatureStride}, rows, round_up(count, 4), s.keep);
    }
  }
  const auto softmax = features != nullptr
                           ? (visibility.is_masked ? softmax_columns<true, true> : softmax_columns<false, true>)
                           : (visibility.is_masked ? softmax_columns<true, false> : softmax_columns<false, false>);
  for (std::int64_t m = 0; m < queries.rows; m += kLanes) softmax(s, queries, count, m);
  for (std::int64_t m = 0; m < queries.rows; ++m) {
    float* row = s.o.data + m * s.o.stride;
    const float factor = s.statistics.data[2 * s.statistics.stride + m];
    for (std::int64_t c = 0; c < keys.hdim_v; c += kLanes) store(row + c, load(row + c) * factor);
  }
  gemm<true>(as_const(s.s), as_const(s.v), s.o, queries.rows, vectors(keys.hdim_v), count, true);
}

template <class Element>
void store_forward(float* memory, const KeyTile& shape, std::int64_t rows, OutputRows o, float* lse,
                   std::int64_t lse_stride) {
  const ForwardScratch s = carve_forward(memory, shape);
  for (std::int64_t m = 0; m < rows; ++m) {
    const float maximum = s.statistics.data[m];
    const float sum = s.statistics.data[s.statistics.stride + m];
    const bool sees_keys = sum != 0.0F;
    narrow_row(s.o.data + m * s.o.stride, shape.hdim_v, sees_keys ? 1.0F / sum : 0.0F,
               static_cast<Element*>(o.data) + m * o.stride);
    lse[m * lse_stride] = sees_keys ? maximum + __builtin_logf(sum) : -__builtin_inff();
  }
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
