#include <type_traits>

#include "arch/mma.cuh"
#include "matrix_kernels.hpp"

namespace fmhax::portable::test {
namespace {

constexpr int kTiles = kProductColumns / 16;

template <RightWay kRight>
constexpr int kGroupOf = kRight == RightWay::grouped ? kColumnGroup<kTiles> : 1;

template <LeftWay kLeft>
__device__ Operand left_operand(const std::uint16_t* tile, int depth, int lane) {
  if constexpr (kLeft == LeftWay::by_rows) {
    return load_left(tile + depth + left_offset(kOperandPitch, lane));
  } else {
    return load_left_transposed(tile + depth * kOperandPitch + left_transposed_offset(kOperandPitch, lane),
                                kOperandPitch);
  }
}

/// Adds a depth of 16.
template <DataType kType, RightWay kRight>
__device__ void add_product(Accumulator (&sums)[kTiles], const Operand& left, const std::uint16_t* right, int depth,
                            int lane) {
  constexpr int kGroup = kGroupOf<kRight>;
  for (int first = 0; first < kTiles; first += kGroup) {
    Operand operands[kGroup];
    if constexpr (kRight == RightWay::transposed) {
      operands[0] = load_right_transposed(right + first * 16 * kOperandPitch + depth +
                                          right_transposed_offset(kOperandPitch, lane));
    } else if constexpr (kRight == RightWay::by_rows) {
      operands[0] =
          load_right(right + depth * kOperandPitch + first * 16 + right_offset(kOperandPitch, lane), kOperandPitch);
    } else {
      ColumnGroup<kGroup> group;
      group.load(right + depth * kOperandPitch + first * 16 + ColumnGroup<kGroup>::offset(kOperandPitch, lane),
                 kOperandPitch);
      group.sort(operands);
    }
    for (int g = 0; g < kGroup; ++g) multiply<kType>(sums[first + g], left, operands[g]);
  }
}

template <int kGroup>
__device__ void write_sums(const Accumulator (&sums)[kTiles], float* to) {
  for (int tile = 0; tile < kTiles; ++tile) {
    for (int r = 0; r < Accumulator::kRows; ++r) {
      for (int c = 0; c < Accumulator::kColumns; ++c) {
        const int column = tile / kGroup * 16 * kGroup + Accumulator::column(c) * kGroup + tile % kGroup;
        to[Accumulator::row(r) * kProductColumns + column] = sums[tile].value[Accumulator::element(r, c)];
      }
    }
  }
}

template <DataType kType, LeftWay kLeft, RightWay kRight>
__global__ void multiply_matrices(ProductArguments a) {
  constexpr int kGroup = kGroupOf<kRight>;
  alignas(16) __shared__ std::uint16_t left[kLeftElements];
  alignas(16) __shared__ std::uint16_t right[kRightElements];
  alignas(16) __shared__ std::uint16_t stored[16 * kOperandPitch];
  for (int i = lane_id(); i < kLeftElements; i += kLanes) left[i] = a.left[i];
  for (int i = lane_id(); i < kRightElements; i += kLanes) right[i] = a.right[i];
  __syncthreads();

  const int lane = lane_id();
  const int left_lane = (lane + a.lane_error) % kLanes;
  Accumulator sums[kTiles];
  for (Accumulator& sum : sums) sum = zero_sums();
  if constexpr (kLeft == LeftWay::deep) {
    for (int depth = 0; depth < kProductDepth; depth += 16 * kDeepTiles) {
      const DeepOperand operand = load_left_deep(left + depth + left_deep_offset(kOperandPitch, left_lane));
      for (int tile = 0; tile < kTiles; ++tile) {
        multiply<kType>(
            sums[tile], operand,
            load_right_deep(right + tile * 16 * kOperandPitch + depth + right_deep_offset(kOperandPitch, lane)));
      }
    }
  } else {
    for (int depth = 0; depth < kProductDepth; depth += 16) {
      add_product<kType, kRight>(sums, left_operand<kLeft>(left, depth, left_lane), right, depth, lane);
    }
  }

  write_sums<kGroup>(sums, a.sums);
  for (int n = 0; n < kTiles; ++n) {
    for (int i = 0; i < kQuads; ++i) {
      const uint2 quad = packed_quad<kType, kGroup>(sums, i, n, 1.0F, lane);
      const int column = quad_column<kGroup>(i, n) + packed_column<kGroup>();
      const int row = quad_row(i);
      *reinterpret_cast<uint2*>(a.quads + row * kProductColumns + column) = quad;
    }
  }
  const Operand rounded = to_operand<kType>(sums[0]);
  store_operand(stored + store_offset(kOperandPitch), kOperandPitch, rounded);
  __syncthreads();
  for (int i = lane_id(); i < 16 * kOperandPitch; i += kLanes) a.stored[i] = stored[i];

  Accumulator next[kTiles];
  for (Accumulator& sum : next) sum = zero_sums();
  add_product<kType, RightWay::by_rows>(next, rounded, right, 0, lane);
  write_sums<1>(next, a.next);
}

template <DataType kType>
const void* kernel_of(LeftWay left, RightWay right) {
  const auto with_left = [&](auto way) {
    constexpr LeftWay kLeft = decltype(way)::value;
    switch (right) {
      case RightWay::transposed:
        return reinterpret_cast<const void*>(&multiply_matrices<kType, kLeft, RightWay::transposed>);
      case RightWay::grouped:
        return reinterpret_cast<const void*>(&multiply_matrices<kType, kLeft, RightWay::grouped>);
      default:
        return reinterpret_cast<const void*>(&multiply_matrices<kType, kLeft, RightWay::by_rows>);
    }
  };
  if (left == LeftWay::deep) {
    return reinterpret_cast<const void*>(&multiply_matrices<kType, LeftWay::deep, RightWay::deep>);
  }
  return left == LeftWay::by_rows ? with_left(std::integral_constant<LeftWay, LeftWay::by_rows>{})
                                  : with_left(std::integral_constant<LeftWay, LeftWay::transposed>{});
}

}  // namespace

const void* product_kernel(DataType dtype, LeftWay left, RightWay right) {
  return dtype == DataType::fp16 ? kernel_of<DataType::fp16>(left, right) : kernel_of<DataType::bf16>(left, right);
}
bool keys_along_rows() { return kKeysAlongRows; }
int column_group() { return kColumnGroup<kTiles>; }

}  // namespace fmhax::portable::test
