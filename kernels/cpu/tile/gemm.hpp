/// @file Register-blocked products of fp32 matrices that lie in the scratch memory.
#pragma once

#include "tile/vector.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {

/// Rows of a matrix in scratch memory: element (r, c) at data[r * stride + c].
struct ConstRows {
  const float* data;
  std::int64_t stride;
};
struct Rows {
  float* data;
  std::int64_t stride;
};

// A slice of the right-hand side this deep and kMicroColumns wide stays in L1 while all rows pass over it.
inline constexpr std::int64_t kDepthBlock = 64;

// kRows x (kColumns vectors) of C, entirely in registers.
template <bool kTransposedA, int kRows, int kColumns>
FMHAX_CPU_INLINE void micro_kernel(ConstRows a, ConstRows b, Rows c, std::int64_t depth, bool accumulate) {
  Float sums[kRows][kColumns];
  unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
    unrolled<kColumns>([&](auto n) __attribute__((always_inline)) {
      constexpr int kR = decltype(r)::value;
      constexpr int kN = decltype(n)::value;
      sums[kR][kN] = accumulate ? load(c.data + kR * c.stride + kN * kLanes) : Float{};
    });
  });
  for (std::int64_t k = 0; k < depth; ++k) {
    Float right[kColumns];
    unrolled<kColumns>([&](auto n) __attribute__((always_inline)) {
      constexpr int kN = decltype(n)::value;
      right[kN] = load(b.data + kN * kLanes);
    });
    unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      constexpr int kR = decltype(r)::value;
      const Float left = splat(kTransposedA ? a.data[kR] : a.data[kR * a.stride]);
      unrolled<kColumns>([&](auto n) __attribute__((always_inline)) {
        constexpr int kN = decltype(n)::value;
        sums[kR][kN] += left * right[kN];
      });
    });
    b.data += b.stride;
    a.data += kTransposedA ? a.stride : 1;
  }
  unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
    unrolled<kColumns>([&](auto n) __attribute__((always_inline)) {
      constexpr int kR = decltype(r)::value;
      constexpr int kN = decltype(n)::value;
      store(c.data + kR * c.stride + kN * kLanes, sums[kR][kN]);
    });
  });
}

// All rows of one panel of kColumns vectors.
template <bool kTransposedA, int kColumns>
FMHAX_CPU_THREAD_PRIVATE void gemm_panel(ConstRows a, ConstRows b, Rows c, std::int64_t rows, std::int64_t depth,
                                         bool accumulate) {
  const std::int64_t a_step = kTransposedA ? 1 : a.stride;
  std::int64_t row = 0;
  for (; row + kMicroRows <= rows; row += kMicroRows) {
    micro_kernel<kTransposedA, kMicroRows, kColumns>({a.data + row * a_step, a.stride}, b,
                                                     {c.data + row * c.stride, c.stride}, depth, accumulate);
  }
  unrolled<kMicroRows>([&](auto rest) __attribute__((always_inline)) {
    constexpr int kRest = decltype(rest)::value;
    if constexpr (kRest > 0) {
      if (rows - row == kRest) {
        micro_kernel<kTransposedA, kRest, kColumns>({a.data + row * a_step, a.stride}, b,
                                                    {c.data + row * c.stride, c.stride}, depth, accumulate);
      }
    }
  });
}

/// C (+)= A * B with C rows x (column_vectors * kLanes), A rows x depth, B depth x columns; with
/// kTransposedA, A is stored depth x rows. Reads and writes whole vectors of B and C. The order of
/// additions depends on the sizes alone.
template <bool kTransposedA>
void gemm(ConstRows a, ConstRows b, Rows c, std::int64_t rows, std::int64_t column_vectors, std::int64_t depth,
          bool accumulate) {
  // Equal panels rather than full ones and a narrow rest.
  const std::int64_t panels = (column_vectors + kMicroColumns - 1) / kMicroColumns;
  for (std::int64_t k = 0; k < depth || (k == 0 && !accumulate); k += kDepthBlock) {
    const std::int64_t block = minimum(kDepthBlock, depth - k);
    const ConstRows a_block{a.data + (kTransposedA ? k * a.stride : k), a.stride};
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t begin = panel * column_vectors / panels;
      const std::int64_t width = (panel + 1) * column_vectors / panels - begin;
      const ConstRows b_panel{b.data + k * b.stride + begin * kLanes, b.stride};
      const Rows c_panel{c.data + begin * kLanes, c.stride};
      unrolled<kMicroColumns>([&](auto n) __attribute__((always_inline)) {
        constexpr int kColumns = decltype(n)::value + 1;
        if (width == kColumns) {
          gemm_panel<kTransposedA, kColumns>(a_block, b_panel, c_panel, rows, block, accumulate || k > 0);
        }
      });
    }
  }
}

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
