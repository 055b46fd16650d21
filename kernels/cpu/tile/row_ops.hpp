/// @file Work on rows: dot products, and the reduction over splits.
#pragma once

#include "tile/convert.hpp"
#include "tile_ops.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

// Halves the vector until one float is left: the same order of additions on every run.
template <int kWidth>
FMHAX_CPU_INLINE float sum_of_lanes(typename VectorTypes<kWidth>::Float value) {
  float lanes[kWidth];
  store<kWidth>(lanes, value);
  for (int width = kWidth / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <class Element>
void dot_rows(InputRows a, InputRows b, std::int64_t rows, std::int64_t hdim, float* d, std::int64_t d_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Element* a_row = static_cast<const Element*>(a.data) + r * a.stride;
    const Element* b_row = static_cast<const Element*>(b.data) + r * b.stride;
    Float whole{};
    float rest = 0.0F;
    along_row(
        hdim, [&](auto width, std::int64_t i) __attribute__((always_inline)) {
          constexpr int kWidth = decltype(width)::value;
          const auto product = widen<kWidth>(a_row + i) * widen<kWidth>(b_row + i);
          if constexpr (kWidth == kLanes) {
            whole += product;
          } else {
            rest = sum_of_lanes<kWidth>(product);
          }
        });
    d[r * d_stride] = sum_of_lanes<kLanes>(whole) + rest;
  }
}

template <class Element>
void reduce_splits(const float* dq_acc, std::int64_t nsplits, std::int64_t split_stride, std::int64_t rows,
                   std::int64_t hdim, float scale, OutputRows dq) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Element* to = static_cast<Element*>(dq.data) + r * dq.stride;
    along_row(
        hdim, [&](auto width, std::int64_t i) __attribute__((always_inline)) {
          constexpr int kWidth = decltype(width)::value;
          typename VectorTypes<kWidth>::Float sum{};
          for (std::int64_t split = 0; split < nsplits; ++split) {
            sum += load<kWidth>(dq_acc + split * split_stride + r * hdim + i);
          }
          narrow<kWidth>(sum * scale, to + i);
        });
  }
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
