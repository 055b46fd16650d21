/// @file Operands and sums of AMD's matrix instructions, and how they come from memory and go there: alike on all that
/// multiply 16 x 16 x 16. Of D = A B + C, lane l of kLanes has
///   A[l % 16][n (l / 16) + j], B[n (l / 16) + j][l % 16], D[n (l / 16) + j][l % 16],  j = 0 .. n - 1,
/// n = 256 / kLanes being the elements of a matrix that a lane has. The order in which a product sums its depth is
/// free.
///
/// A is given the product's right operand and B the left one, transposed: a lane then holds neighbouring columns of one
/// row of the product, which are the lane's part of that product as the left operand of the next.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <type_traits>

#include "elements.cuh"
#include "fmhax/contract/problem.hpp"

namespace fmhax::portable {

inline constexpr int kLanes = arch::kWarpSize;
inline constexpr int kLaneElements = 16 * 16 / kLanes;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x % static_cast<unsigned>(kLanes)); }

// Functions below take the lane last, for kernels that keep it in a register.

/// 16 x 16 operand of 16-bit elements: row l % 16 and depth kLaneElements * (l / 16) + j of the left one, column and
/// depth of the right one.
struct Operand {
  std::uint32_t word[kLaneElements / 2];

  /// One below the other, `pitch` elements apart.
  __device__ void store(std::uint16_t* at, int pitch) const {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) at[j * pitch] = static_cast<std::uint16_t>(word[j / 2] >> (j % 2 * 16));
  }
};

/// What products along rows of memory take at a time, operands of neighbouring depth in one: a lane has columns
/// 8 (l / 16) + j, j = 0 .. 7, of a row.
inline constexpr int kDeepTiles = 8 / kLaneElements;
struct DeepOperand {
  Operand part[kDeepTiles];

  __device__ static int row(int lane) { return lane % 16; }
  __device__ static int column(int lane) { return lane / 16 * 8; }
  /// Of the lane's eight columns.
  __device__ static DeepOperand of(const uint4& columns) { return arch::detail::bits_as<DeepOperand>(columns); }
  /// Writes a left operand to a tile of shared memory, its depth as rows; wants the tile's address plus store_offset.
  __device__ static int store_offset(int pitch, int lane) { return column(lane) * pitch + row(lane); }
  __device__ void store(std::uint16_t* at, int pitch) const {
#pragma unroll
    for (int i = 0; i < kDeepTiles; ++i) part[i].store(at + i * kLaneElements * pitch, pitch);
  }
};

/// 16 x 16 sums. A lane holds kRows x kColumns of them: element(r, c) lies at (row(r), column(c)).
struct Accumulator {
  static constexpr int kRows = 1;
  static constexpr int kColumns = kLaneElements;
  static constexpr int kLaneStep = 16;  ///< between lanes that share a row
  float value[kRows * kColumns];

  static constexpr __device__ int element(int, int c) { return c; }
  static constexpr __device__ int row(int, int lane) { return lane % 16; }
  static constexpr __device__ int column(int c, int lane) { return lane / 16 * kLaneElements + c; }
  __device__ static int row(int r) { return row(r, lane_id()); }
  __device__ static int column(int c) { return column(c, lane_id()); }
};

namespace detail {

using Floats = float __attribute__((ext_vector_type(kLaneElements)));

/// The first (second) elements of two words.
__device__ inline std::uint32_t low_halves(std::uint32_t first, std::uint32_t second) {
  return __builtin_amdgcn_perm(second, first, 0x05040100U);
}
__device__ inline std::uint32_t high_halves(std::uint32_t first, std::uint32_t second) {
  return __builtin_amdgcn_perm(second, first, 0x07060302U);
}

/// Of word(0), word(1), ... Not in a loop: the compiler unrolls one loop more too late to keep the sums in registers.
template <class Word>
__device__ __forceinline__ Operand operand_of(const Word& word) {
  if constexpr (kLaneElements == 4) {
    return {{word(0), word(1)}};
  } else {
    return {{word(0), word(1), word(2), word(3)}};
  }
}

__device__ inline Operand load_column(const std::uint16_t* at, int pitch) {
  return operand_of(
      [&](int i) { return static_cast<std::uint32_t>(at[(2 * i + 1) * pitch]) << 16U | at[2 * i * pitch]; });
}

__device__ inline Operand load_row(const std::uint16_t* at) {
  using Words = std::conditional_t<kLaneElements == 4, uint2, uint4>;
  return arch::detail::bits_as<Operand>(*reinterpret_cast<const Words*>(at));
}

}  // namespace detail

// A 16 x 16 tile of shared memory becomes an operand in four ways. Each wants the address of the tile's first element
// plus the lane's offset, for `pitch` elements a row. Those along the depth read a lane's elements at once, the others
// one by one.
__device__ inline int along_depth(int pitch, int lane) { return lane % 16 * pitch + lane / 16 * kLaneElements; }
__device__ inline int across_depth(int pitch, int lane) { return lane / 16 * kLaneElements * pitch + lane % 16; }

__device__ inline int left_offset(int pitch, int lane = lane_id()) { return along_depth(pitch, lane); }
/// The tile's rows are the product's rows, its columns the depth.
__device__ inline Operand load_left(const std::uint16_t* at) { return detail::load_row(at); }

__device__ inline int left_transposed_offset(int pitch, int lane = lane_id()) { return across_depth(pitch, lane); }
/// The tile's rows are the depth, its columns the product's rows.
__device__ inline Operand load_left_transposed(const std::uint16_t* at, int pitch) {
  return detail::load_column(at, pitch);
}

__device__ inline int right_offset(int pitch, int lane = lane_id()) { return across_depth(pitch, lane); }
/// The tile's rows are the depth, its columns the product's columns.
__device__ inline Operand load_right(const std::uint16_t* at, int pitch) { return detail::load_column(at, pitch); }

__device__ inline int right_transposed_offset(int pitch, int lane = lane_id()) { return along_depth(pitch, lane); }
/// The tile's rows are the product's columns, its columns the depth.
__device__ inline Operand load_right_transposed(const std::uint16_t* at) { return detail::load_row(at); }

/// Sums that a loop carries begin with this. A zero that the compiler knows makes it keep their elements apart, and
/// gather and scatter them around each product.
__device__ inline Accumulator zero_sums() {
  detail::Floats zero = 0.0F;
  asm("" : "+v"(zero));
  return __builtin_bit_cast(Accumulator, zero);
}

/// A product's result, rounded, as the left operand of the next product. NaNs must be plain ones.
template <DataType kType>
__device__ inline Operand to_operand(const Accumulator& a) {
  return detail::operand_of([&](int i) { return narrow_plain<kType>(a.value[2 * i], a.value[2 * i + 1]); });
}

__device__ inline int left_deep_offset(int pitch, int lane) {
  return DeepOperand::row(lane) * pitch + DeepOperand::column(lane);
}
__device__ inline int right_deep_offset(int pitch, int lane) { return left_deep_offset(pitch, lane); }
__device__ inline DeepOperand load_left_deep(const std::uint16_t* at) {
  return DeepOperand::of(*reinterpret_cast<const uint4*>(at));
}
/// The tile's rows are the product's columns.
__device__ inline DeepOperand load_right_deep(const std::uint16_t* at) { return load_left_deep(at); }

/// How many neighbouring ones of kTiles tiles share their columns in turn.
template <int kTiles>
inline constexpr int kColumnGroup = kTiles % 4 == 0   ? 4
                                    : kTiles % 2 == 0 ? 2
                                                      : 1;

/// Right operands whose tiles' rows are the depth: kGroup neighbouring tiles share their columns in turn, so that a
/// lane reads as many columns of its rows at once and sorts them in registers. Column i of tile g in a group is column
/// kGroup i + g of the group's.
template <int kGroup>
struct ColumnGroup {
  std::uint32_t rows[kLaneElements][kGroup / 2];

  __device__ static int offset(int pitch, int lane) { return lane / 16 * kLaneElements * pitch + lane % 16 * kGroup; }
  __device__ __forceinline__ void load(const std::uint16_t* at, int pitch) {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j)
      __builtin_memcpy(rows[j], __builtin_assume_aligned(at + j * pitch, 2 * kGroup), 2 * kGroup);
  }
  __device__ __forceinline__ void sort(Operand (&to)[kGroup]) const {
#pragma unroll
    for (int g = 0; g < kGroup; g += 2) {
      const auto row = [&](int j) { return rows[j][g / 2]; };
      to[g] = detail::operand_of([&](int i) { return detail::low_halves(row(2 * i), row(2 * i + 1)); });
      to[g + 1] = detail::operand_of([&](int i) { return detail::high_halves(row(2 * i), row(2 * i + 1)); });
    }
  }
};
template <>
struct ColumnGroup<1> {
  Operand operand;

  __device__ static int offset(int pitch, int lane) { return across_depth(pitch, lane); }
  __device__ __forceinline__ void load(const std::uint16_t* at, int pitch) { operand = detail::load_column(at, pitch); }
  __device__ __forceinline__ void sort(Operand (&to)[1]) const { to[0] = operand; }
};

/// Operands whose depth is the keys (dS and K, for dq) lie in shared memory with the keys along the rows of memory, so
/// that they are read as deep ones.
inline constexpr bool kKeysAlongRows = true;
inline constexpr int kKeyOperandTiles = kDeepTiles;
using KeyOperand = DeepOperand;
__device__ inline int left_key_offset(int pitch, int lane) { return left_deep_offset(pitch, lane); }
__device__ inline int right_key_offset(int pitch, int lane) { return right_deep_offset(pitch, lane); }
__device__ inline KeyOperand load_left_keys(const std::uint16_t* at, int) { return load_left_deep(at); }
__device__ inline KeyOperand load_right_keys(const std::uint16_t* at, int) { return load_right_deep(at); }

/// Writes a left operand to a 16 x 16 tile of shared memory, its depth as rows; wants the tile's address plus
/// store_offset.
__device__ inline int store_offset(int pitch, int lane = lane_id()) { return across_depth(pitch, lane); }
__device__ inline void store_operand(std::uint16_t* at, int pitch, const Operand& o) { o.store(at, pitch); }

/// The sums of a lane by rows, as quads of four neighbouring columns: of tiles that share their columns in groups of
/// kGroup. Quad i of tile n begins at column quad_column<kGroup>(i, n) + packed_column<kGroup>().
inline constexpr int kQuads = kLaneElements / 4;
__device__ constexpr int quad_row(int, int lane = lane_id()) { return lane % 16; }
template <int kGroup = 1>
__device__ inline int packed_column(int lane = lane_id()) {
  return lane / 16 * kLaneElements * kGroup;
}
template <int kGroup>
__device__ constexpr int quad_column(int i, int n) {
  return n / kGroup * 16 * kGroup + (n % kGroup * kQuads + i) * 4;
}
template <int kGroup, int kTiles>
__device__ inline float4 row_quad(const Accumulator (&row)[kTiles], int i, int n) {
  const int first = n / kGroup * kGroup;
  const int quad = n % kGroup * kQuads + i;
  float v[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int column = quad * 4 + e;  // of the lane's kLaneElements * kGroup
    v[e] = row[first + column % kGroup].value[column / kGroup];
  }
  return make_float4(v[0], v[1], v[2], v[3]);
}
/// A row's quad scaled and rounded.
template <DataType kType, int kGroup, int kTiles>
__device__ inline uint2 packed_quad(const Accumulator (&row)[kTiles], int i, int n, float scale, int = 0) {
  const float4 v = row_quad<kGroup>(row, i, n);
  return make_uint2(narrow<kType>(v.x * scale, v.y * scale), narrow<kType>(v.z * scale, v.w * scale));
}

/// Where quad i of the first tile lies in its group of dq_acc_order.hpp, with `height` rows and tiles of `width`
/// columns.
__device__ inline int quad_place(int i, int height, int, int lane) {
  return (lane / 16 * kQuads + i) * height + lane % 16;
}
/// Whether the quad lies within `width` columns.
__device__ inline bool has_quad(int i, int width, int lane) { return (lane / 16 * kQuads + i) * 4 < width; }

/// A copy of 16 (4) bytes from global to shared memory in two halves, between which it passes through a register;
/// zeros when not valid. Floats that are NaN become plain NaNs.
__device__ inline void begin_copy16(void*, const void* global, bool is_valid, uint4& held) {
  held = is_valid ? arch::load_global(static_cast<const uint4*>(global)) : uint4{0, 0, 0, 0};
}
__device__ inline void begin_store16(void*, const uint4& value, uint4& held) { held = value; }
__device__ inline void end_copy16(void* shared, const uint4& held) { *static_cast<uint4*>(shared) = held; }
__device__ inline void begin_copy4(void*, const void* global, bool is_valid, float& held) {
  held = is_valid ? arch::load_global(static_cast<const float*>(global)) : 0.0F;
}
__device__ inline void end_copy4(void* shared, float held) { *static_cast<float*>(shared) = arch::plain_nan(held); }

/// A barrier among the `warps` neighbouring warps of group `group`; there is none for less than a block, whose warps
/// all come here equally often.
__device__ inline void sync_warps(int, int) { __syncthreads(); }

/// The compiler keeps instructions on their side of this, and orders those between two of them as it likes.
__device__ __forceinline__ void end_phase() { __builtin_amdgcn_sched_barrier(0); }

enum class Work { vector = 0x2, matrix = 0x8, shared_read = 0x100, shared_write = 0x200 };

/// What a phase does in which order: call after call, `kCount` instructions of a kind, as far as they depend on nothing
/// later.
template <Work kWork, int kCount>
__device__ __forceinline__ void order_next() {
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)  // since clang 16
  __builtin_amdgcn_sched_group_barrier(static_cast<int>(kWork), kCount, 0);
#endif
}
/// `kTimes` matrix instructions, after each of them `kCount` of another kind, which take place while it is executed.
template <int kTimes, Work kWork, int kCount>
__device__ __forceinline__ void order_beside_matrix() {
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    order_next<Work::matrix, 1>();
    order_next<kWork, kCount>();
  }
}

/// Waits for all of this thread's copies.
__device__ inline void wait_for_copies() {}

}  // namespace fmhax::portable
