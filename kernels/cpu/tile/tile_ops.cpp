// Compiled once for each instruction set, which gives FMHAX_CPU_ISA its name.
#include "tile_ops.hpp"

#include "tile/backward_tile.hpp"
#include "tile/forward_tile.hpp"
#include "tile/row_ops.hpp"

namespace fmhax::cpu::FMHAX_CPU_ISA {
namespace {

template <class Element>
void widen_any(const void* from, std::int64_t size, float* to) {
  along_row(
      size, [&](auto width, std::int64_t i) __attribute__((always_inline)) {
        constexpr int kWidth = decltype(width)::value;
        store<kWidth>(to + i, widen<kWidth>(static_cast<const Element*>(from) + i));
      });
}

template <class Element>
void narrow_any(const float* from, std::int64_t size, void* to) {
  narrow_row(from, size, 1.0F, static_cast<Element*>(to));
}

void exponential_of(const float* from, std::int64_t size, float* to) {
  for (std::int64_t i = 0; i < size; i += kLanes) store(to + i, exponential(load(from + i)));
}

void gemm_any(bool transposed_a, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
              std::int64_t c_stride, std::int64_t rows, std::int64_t columns, std::int64_t depth, bool accumulate) {
  const auto multiply = transposed_a ? gemm<true> : gemm<false>;
  multiply({a, a_stride}, {b, b_stride}, {c, c_stride}, rows, vectors(columns), depth, accumulate);
}

template <class Element>
constexpr TileOps kOps{
    .load_keys = load_keys<Element>,
    .backward = backward<Element>,
    .add_bias_gradient = add_bias_gradient<Element>,
    .store_key_gradients = store_key_gradients<Element>,
    .write_dq_acc = write_dq_acc,
    .store_dq = store_dq<Element>,
    .dot_rows = dot_rows<Element>,
    .reduce_splits = reduce_splits<Element>,
    .begin_forward = begin_forward<Element>,
    .forward_keys = forward_keys<Element>,
    .store_forward = store_forward<Element>,
    .widen = widen_any<Element>,
    .narrow = narrow_any<Element>,
    .exponential = exponential_of,
    .gemm = gemm_any,
};

}  // namespace

extern const TileOps kFp32Ops;
extern const TileOps kFp16Ops;
extern const TileOps kBf16Ops;
const TileOps kFp32Ops = kOps<Fp32>;
const TileOps kFp16Ops = kOps<Fp16>;
const TileOps kBf16Ops = kOps<Bf16>;

}  // namespace fmhax::cpu::FMHAX_CPU_ISA
