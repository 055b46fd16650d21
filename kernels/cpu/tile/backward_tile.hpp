/// @file The backward pass of one key tile against one query tile.
#pragma once

#include "tile/exp.hpp"
#include "tile/features.hpp"
#include "tile/scratch.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

struct BackwardScratch {
  Rows k, k_transposed, v_transposed, dk, dv;  // of the key tile
  Rows q, dout, p, ds, dq;                     // of the query tile; S and dP become P and dS in place
};

inline BackwardScratch carve_backward(float* memory, const KeyTile& keys) {
  Carver carver{memory};
  BackwardScratch s;
  s.k = carver.take(kN0, keys.hdim_q);
  s.k_transposed = carver.take(keys.hdim_q, kN0);
  s.v_transposed = carver.take(keys.hdim_v, kN0);
  s.dk = carver.take(kN0, keys.hdim_q);
  s.dv = carver.take(kN0, keys.hdim_v);
  s.q = carver.take(kM0, keys.hdim_q);
  s.dout = carver.take(kM0, keys.hdim_v);
  s.p = carver.take(kM0, kN0);
  s.ds = carver.take(kM0, kN0);
  s.dq = carver.take(kM0, keys.hdim_q);
  return s;
}

template <class Element>
void load_keys(float* memory, const KeyTile& keys) {
  const BackwardScratch s = carve_backward(memory, keys);
  // What S and dP hold beyond the last key is never used, but should be numbers.
  const std::int64_t whole = round_up(keys.keys, kLanes);
  // V as it lies is needed only to be transposed; dv's memory has its shape and is cleared below.
  load_tile<Element>(keys.v, keys.keys, keys.hdim_v, s.dv);
  fill_rows(s.dv, keys.keys, whole, keys.hdim_v, 0.0F);
  transpose(as_const(s.dv), whole, keys.hdim_v, s.v_transposed);
  load_tile<Element>(keys.k, keys.keys, keys.hdim_q, s.k);
  fill_rows(s.k, keys.keys, whole, keys.hdim_q, 0.0F);
  transpose(as_const(s.k), whole, keys.hdim_q, s.k_transposed);
  fill_rows(s.dk, 0, keys.keys, keys.hdim_q, 0.0F);
  fill_rows(s.dv, 0, keys.keys, keys.hdim_v, 0.0F);
}

// What a query row brings to its probabilities.
struct RowConstants {
  float lse;
  float d;
};

// S, dP -> P = exp(scale * S - lse), dS = P * (dP - d), on columns [begin, end).
template <bool kMasked>
FMHAX_CPU_THREAD_PRIVATE void probabilities(const BackwardScratch& s, const QueryTile& queries,
                                            const RowConstants* constants, std::int64_t begin, std::int64_t end) {
  const Float scale = splat(queries.scale);
  for (std::int64_t m = 0; m < queries.rows; ++m) {
    const Float lse = splat(constants[m].lse);
    const Float d = splat(constants[m].d);
    float* p_row = s.p.data + m * s.p.stride;
    float* ds_row = s.ds.data + m * s.ds.stride;
    const Int first = Int{} + (queries.visibility.visible_begin + static_cast<std::int32_t>(m));
    const Int last = Int{} + (queries.visibility.visible_end + static_cast<std::int32_t>(m));
    for (std::int64_t n = begin; n < end; n += kLanes) {
      Float p = exponential(load(p_row + n) * scale - lse);
      Float ds = p * (load(ds_row + n) - d);
      if constexpr (kMasked) {
        // After exp, too: lse of a row that sees nothing may be -inf, and the d that goes with it anything.
        const Int key = lane_numbers() + static_cast<std::int32_t>(n);
        const Int visible = (key >= first) & (key < last);
        p = bits_of<Float>(bits_of<Int>(p) & visible);
        ds = bits_of<Float>(bits_of<Int>(ds) & visible);
      }
      store(p_row + n, p);
      store(ds_row + n, ds);
    }
  }
}

// The same with features: P comes out with dropout applied, dS by scores or, for dbias, by logits.
template <bool kMasked, bool kByLogits>
FMHAX_CPU_THREAD_PRIVATE void feature_probabilities(const BackwardScratch& s, const QueryTile& queries,
                                                    const RowConstants* constants, std::int64_t begin,
                                                    std::int64_t end) {
  const TileFeatures& features = *queries.features;
  const Float scale = splat(queries.scale);
  for (std::int64_t m = 0; m < queries.rows; ++m) {
    const Float lse = splat(constants[m].lse);
    const Float d = splat(constants[m].d);
    float* p_row = s.p.data + m * s.p.stride;
    float* ds_row = s.ds.data + m * s.ds.stride;
    const float* bias_row = features.bias != nullptr ? features.bias + m * kFeatureStride : nullptr;
    const float* keep_row = features.keep != nullptr ? features.keep + m * kFeatureStride : nullptr;
    const Int first = Int{} + (queries.visibility.visible_begin + static_cast<std::int32_t>(m));
    const Int last = Int{} + (queries.visibility.visible_end + static_cast<std::int32_t>(m));
    for (std::int64_t n = begin; n < end; n += kLanes) {
      const Logits logits = logits_of(load(p_row + n) * scale, features.softcap, bias_row ? bias_row + n : nullptr);
      const Float p = exponential(logits.value - lse);
      const Float keep = keep_row != nullptr ? load(keep_row + n) : splat(1.0F);
      Float ds = p * (load(ds_row + n) * keep - d);
      if constexpr (!kByLogits) ds *= logits.slope;
      Float kept = p * keep;
      if constexpr (kMasked) {
        const Int key = lane_numbers() + static_cast<std::int32_t>(n);
        const Int visible = (key >= first) & (key < last);
        kept = bits_of<Float>(bits_of<Int>(kept) & visible);
        ds = bits_of<Float>(bits_of<Int>(ds) & visible);
      }
      store(p_row + n, kept);
      store(ds_row + n, ds);
    }
  }
}

template <bool kByLogits>
void feature_probabilities(const BackwardScratch& s, const QueryTile& queries, const RowConstants* constants,
                           std::int64_t begin, std::int64_t end) {
  if (queries.visibility.is_masked) {
    feature_probabilities<true, kByLogits>(s, queries, constants, begin, end);
  } else {
    feature_probabilities<false, kByLogits>(s, queries, constants, begin, end);
  }
}

// Q, dO, S and dP of a query tile, and what its rows bring.
template <class Element>
void load_scores(const BackwardScratch& s, const KeyTile& keys, const QueryTile& queries, RowConstants* constants) {
  const std::int64_t rows = queries.rows;
  const std::int64_t begin = queries.visibility.key_begin;
  const std::int64_t columns = queries.visibility.key_end - begin;
  load_tile<Element>(queries.q, rows, keys.hdim_q, s.q);
  load_tile<Element>(queries.dout, rows, keys.hdim_v, s.dout);
  const auto column_of = [&](Rows m) __attribute__((always_inline)) { return Rows{m.data + begin, m.stride}; };
  gemm<false>(as_const(s.q), as_const(column_of(s.k_transposed)), column_of(s.p), rows, vectors(columns), keys.hdim_q,
              false);
  gemm<false>(as_const(s.dout), as_const(column_of(s.v_transposed)), column_of(s.ds), rows, vectors(columns),
              keys.hdim_v, false);
  for (std::int64_t m = 0; m < rows; ++m) {
    constants[m] = {queries.lse.data[m * queries.lse.stride], queries.d.data[m * queries.d.stride]};
    // Where the bias takes every key's weight: exp(-inf - inf) is 0.
    if (queries.features != nullptr && constants[m].lse == -__builtin_inff()) constants[m].lse = __builtin_inff();
  }
}

template <class Element>
void add_bias_gradient(float* memory, const KeyTile& keys, const QueryTile& queries, float* sum) {
  const BackwardScratch s = carve_backward(memory, keys);
  const std::int64_t begin = queries.visibility.key_begin;
  const std::int64_t end = queries.visibility.key_end;
  RowConstants constants[kM0];
  load_scores<Element>(s, keys, queries, constants);
  feature_probabilities<true>(s, queries, constants, begin, end);
  for (std::int64_t m = 0; m < queries.rows; ++m) {
    const float* from = s.ds.data + m * s.ds.stride;
    float* to = sum + m * kFeatureStride;
    for (std::int64_t n = begin; n < end; ++n) to[n] += from[n];
  }
}

template <class Element>
void backward(float* memory, const KeyTile& keys, const QueryTile& queries) {
  const BackwardScratch s = carve_backward(memory, keys);
  const std::int64_t rows = queries.rows;
  const std::int64_t begin = queries.visibility.key_begin;
  const std::int64_t end = queries.visibility.key_end;
  const std::int64_t columns = end - begin;
  RowConstants constants[kM0];
  load_scores<Element>(s, keys, queries, constants);

  const auto column_of = [&](Rows m) __attribute__((always_inline)) { return Rows{m.data + begin, m.stride}; };
  const auto row_of = [&](Rows m) __attribute__((always_inline)) { return Rows{m.data + begin * m.stride, m.stride}; };
  const Rows p = column_of(s.p);
  const Rows ds = column_of(s.ds);
  if (queries.features != nullptr) {
    feature_probabilities<false>(s, queries, constants, begin, end);
  } else if (queries.visibility.is_masked) {
    probabilities<true>(s, queries, constants, begin, end);
  } else {
    probabilities<false>(s, queries, constants, begin, end);
  }
  gemm<true>(as_const(p), as_const(s.dout), row_of(s.dv), columns, vectors(keys.hdim_v), rows, true);
  gemm<true>(as_const(ds), as_const(s.q), row_of(s.dk), columns, vectors(keys.hdim_q), rows, true);
  gemm<false>(as_const(ds), as_const(row_of(s.k)), s.dq, rows, vectors(keys.hdim_q), columns, false);
}

template <class Element>
void store_tile(Rows from, std::int64_t rows, std::int64_t columns, float factor, OutputRows to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    narrow_row(from.data + r * from.stride, columns, factor, static_cast<Element*>(to.data) + r * to.stride);
  }
}

template <class Element>
void store_key_gradients(float* memory, const KeyTile& keys, float scale, OutputRows dk, OutputRows dv) {
  const BackwardScratch s = carve_backward(memory, keys);
  store_tile<Element>(s.dk, keys.keys, keys.hdim_q, scale, dk);
  store_tile<Element>(s.dv, keys.keys, keys.hdim_v, 1.0F, dv);
}

template <class Element>
void store_dq(float* memory, const KeyTile& keys, std::int64_t rows, float scale, OutputRows dq) {
  store_tile<Element>(carve_backward(memory, keys).dq, rows, keys.hdim_q, scale, dq);
}

inline void write_dq_acc(float* memory, const KeyTile& keys, std::int64_t rows, float* dq_acc, bool adds) {
  const Rows dq = carve_backward(memory, keys).dq;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = dq.data + r * dq.stride;
    float* to = dq_acc + r * keys.hdim_q;
    along_row(
        keys.hdim_q, [&](auto width, std::int64_t c) __attribute__((always_inline)) {
          constexpr int kWidth = decltype(width)::value;
          const auto value = load<kWidth>(from + c);
          store<kWidth>(to + c, adds ? load<kWidth>(to + c) + value : value);
        });
  }
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
