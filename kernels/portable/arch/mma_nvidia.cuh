/// @file Matrix instructions of NVIDIA GPUs (sm_80 and newer) behind the portable kernels' trait. Layouts: PTX ISA,
/// "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

#include "elements.cuh"
#include "fmhax/contract/problem.hpp"

namespace fmhax::portable {

inline constexpr int kLanes = 32;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x % static_cast<unsigned>(kLanes)); }

// Functions below take the lane last, for kernels that keep it in a register.

/// 16 x 16 operand of 16-bit elements. The same registers serve as the left operand of 16 x 16 (rows, depth) and as
/// the right one of (columns, depth).
struct Operand {
  std::uint32_t word[4];
};

/// 16 x 16 sums. A lane holds kRows x kColumns of them: element(r, c) lies at (row(r), column(c)).
struct Accumulator {
  static constexpr int kRows = 2;
  static constexpr int kColumns = 4;
  static constexpr int kLaneStep = 1;  ///< between lanes that share a row
  float value[kRows * kColumns];

  static constexpr __device__ int element(int r, int c) { return c / 2 * 4 + r * 2 + c % 2; }
  static constexpr __device__ int row(int r, int lane) { return lane / 4 + 8 * r; }
  static constexpr __device__ int column(int c, int lane) { return lane % 4 * 2 + c % 2 + c / 2 * 8; }
  __device__ static int row(int r) { return row(r, lane_id()); }
  __device__ static int column(int c) { return column(c, lane_id()); }
};

namespace detail {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline Operand load_matrices(const void* row) {
  Operand o;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(o.word[0]), "=r"(o.word[1]), "=r"(o.word[2]), "=r"(o.word[3])
               : "r"(shared_address(row)));
  return o;
}

__device__ inline Operand load_matrices_transposed(const void* row) {
  Operand o;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(o.word[0]), "=r"(o.word[1]), "=r"(o.word[2]), "=r"(o.word[3])
               : "r"(shared_address(row)));
  return o;
}

template <DataType kType>
__device__ inline void mma_16x8(float* c, const Operand& a, std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kType == DataType::bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace detail

// A 16 x 16 tile of shared memory becomes an operand in four ways. Each wants the address of the tile's first element
// plus the lane's offset, for `pitch` elements a row. The instruction's order of 8 x 8 matrices is chosen by the lanes'
// addresses such that each half of a right operand lies in neighbouring registers.
__device__ inline int by_rows(int pitch, int lane) { return lane % 16 * pitch + lane / 16 * 8; }
__device__ inline int by_halves(int pitch, int lane) { return (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8; }

__device__ inline int left_offset(int pitch, int lane = lane_id()) { return by_rows(pitch, lane); }
/// The tile's rows are the product's rows, its columns the depth.
__device__ inline Operand load_left(const std::uint16_t* at) { return detail::load_matrices(at); }

__device__ inline int left_transposed_offset(int pitch, int lane = lane_id()) { return by_halves(pitch, lane); }
/// The tile's rows are the depth, its columns the product's rows.
__device__ inline Operand load_left_transposed(const std::uint16_t* at, int) {
  return detail::load_matrices_transposed(at);
}

__device__ inline int right_offset(int pitch, int lane = lane_id()) { return by_rows(pitch, lane); }
/// The tile's rows are the depth, its columns the product's columns.
__device__ inline Operand load_right(const std::uint16_t* at, int) { return detail::load_matrices_transposed(at); }

__device__ inline int right_transposed_offset(int pitch, int lane = lane_id()) { return by_halves(pitch, lane); }
/// The tile's rows are the product's columns, its columns the depth.
__device__ inline Operand load_right_transposed(const std::uint16_t* at) { return detail::load_matrices(at); }

/// sum += left * right
template <DataType kType>
__device__ inline void multiply(Accumulator& sum, const Operand& left, const Operand& right) {
  detail::mma_16x8<kType>(sum.value, left, right.word[0], right.word[1]);
  detail::mma_16x8<kType>(sum.value + 4, left, right.word[2], right.word[3]);
}

/// Sums that a loop carries begin with this.
__device__ inline Accumulator zero_sums() { return {}; }

/// What products along rows of memory take of the depth at a time: here a plain operand.
inline constexpr int kDeepTiles = 1;
using DeepOperand = Operand;
__device__ inline int left_deep_offset(int pitch, int lane) { return left_offset(pitch, lane); }
__device__ inline int right_deep_offset(int pitch, int lane) { return right_transposed_offset(pitch, lane); }
__device__ inline DeepOperand load_left_deep(const std::uint16_t* at) { return load_left(at); }
/// The tile's rows are the product's columns.
__device__ inline DeepOperand load_right_deep(const std::uint16_t* at) { return load_right_transposed(at); }

/// How many neighbouring ones of kTiles tiles share their columns in turn: here each has its own.
template <int kTiles>
inline constexpr int kColumnGroup = 1;

/// Right operands whose tiles' rows are the depth, read together and sorted: here a plain one.
template <int kGroup>
struct ColumnGroup {
  static_assert(kGroup == 1);
  Operand operand;

  __device__ static int offset(int pitch, int lane) { return right_offset(pitch, lane); }
  __device__ __forceinline__ void load(const std::uint16_t* at, int pitch) { operand = load_right(at, pitch); }
  __device__ __forceinline__ void sort(Operand (&to)[kGroup]) const { to[0] = operand; }
};

/// A product's result, rounded, as the left operand of the next product.
template <DataType kType>
__device__ inline Operand to_operand(const Accumulator& a) {
  return {{narrow_plain<kType>(a.value[0], a.value[1]), narrow_plain<kType>(a.value[2], a.value[3]),
           narrow_plain<kType>(a.value[4], a.value[5]), narrow_plain<kType>(a.value[6], a.value[7])}};
}

/// Operands whose depth is the keys (dS and K, for dq) lie in shared memory with the keys across the rows of memory,
/// and are transposed where they are read.
inline constexpr bool kKeysAlongRows = false;
inline constexpr int kKeyOperandTiles = 1;
using KeyOperand = Operand;
__device__ inline int left_key_offset(int pitch, int lane) { return left_transposed_offset(pitch, lane); }
__device__ inline int right_key_offset(int pitch, int lane) { return right_offset(pitch, lane); }
__device__ inline KeyOperand load_left_keys(const std::uint16_t* at, int pitch) {
  return load_left_transposed(at, pitch);
}
__device__ inline KeyOperand load_right_keys(const std::uint16_t* at, int pitch) { return load_right(at, pitch); }

/// Writes an operand from to_operand() to a 16 x 16 tile of shared memory, row by row; wants the tile's address plus
/// store_offset.
__device__ inline int store_offset(int pitch, int lane = lane_id()) { return lane / 4 * pitch + lane % 4 * 2; }
__device__ inline void store_operand(std::uint16_t* at, int pitch, const Operand& o) {
  *reinterpret_cast<std::uint32_t*>(at) = o.word[0];
  *reinterpret_cast<std::uint32_t*>(at + 8 * pitch) = o.word[1];
  *reinterpret_cast<std::uint32_t*>(at + 8) = o.word[2];
  *reinterpret_cast<std::uint32_t*>(at + 8 * pitch + 8) = o.word[3];
}

/// The sums of a lane by rows: quad i of tile n are those of row quad_row(i) in columns {0, 1, 8, 9} + 2 * (lane % 4).
inline constexpr int kQuads = 2;
__device__ constexpr int quad_row(int i, int lane = lane_id()) { return lane / 4 + 8 * i; }
template <int kGroup>
__device__ constexpr int quad_column(int, int n) {
  return n * 16;
}
template <int kGroup, int kTiles>
__device__ inline float4 row_quad(const Accumulator (&row)[kTiles], int i, int n) {
  const float* v = row[n].value + 2 * i;
  return make_float4(v[0], v[1], v[4], v[5]);
}

/// The same quad scaled, rounded and traded with the neighbouring lane: four consecutive columns from
/// quad_column(i, n) + packed_column() on. All lanes of a warp call it together.
template <int kGroup = 1>
__device__ inline int packed_column(int lane = lane_id()) {
  return lane % 2 * 8 + lane % 4 / 2 * 4;
}
template <DataType kType, int kGroup, int kTiles>
__device__ inline uint2 packed_quad(const Accumulator (&row)[kTiles], int i, int n, float scale, int lane = lane_id()) {
  const float4 v = row_quad<kGroup>(row, i, n);
  const std::uint32_t low = narrow<kType>(v.x * scale, v.y * scale);
  const std::uint32_t high = narrow<kType>(v.z * scale, v.w * scale);
  const bool is_odd = (lane & 1) != 0;
  const std::uint32_t got = __shfl_xor_sync(0xffffffffU, is_odd ? low : high, 1);
  return is_odd ? make_uint2(got, high) : make_uint2(low, got);
}

/// Where quad i of the first tile lies in its group of dq_acc_order.hpp, with `height` rows and tiles of `width`
/// columns.
__device__ inline int quad_place(int, int, int width, int lane) { return lane * (width / 4); }
/// Whether the quad, or half of it, lies within `width` columns.
__device__ inline bool has_quad(int, int, int) { return true; }

/// A copy of 16 (4) bytes from global to shared memory in two halves, of which the first does it all, behind the
/// thread's back; zeros when not valid.
__device__ inline void begin_copy16(void* shared, const void* global, bool is_valid, uint4&) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(detail::shared_address(shared)), "l"(global),
               "r"(is_valid ? 16 : 0)
               : "memory");
}
__device__ inline void begin_store16(void* shared, const uint4& value, uint4&) { *static_cast<uint4*>(shared) = value; }
__device__ inline void end_copy16(void*, const uint4&) {}
__device__ inline void begin_copy4(void* shared, const void* global, bool is_valid, float&) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(detail::shared_address(shared)), "l"(global),
               "r"(is_valid ? 4 : 0)
               : "memory");
}
__device__ inline void end_copy4(void*, float) {}
/// A barrier among the `warps` neighbouring warps of group `group` alone; at most 15 groups.
__device__ inline void sync_warps(int group, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(warps * kLanes) : "memory");
}

// What orders instructions where the compiler doesn't know best (mma_amd.cuh); here it does.
enum class Work { vector, matrix, shared_read, shared_write };
__device__ __forceinline__ void end_phase() {}
template <Work kWork, int kCount>
__device__ __forceinline__ void order_next() {}
template <int kTimes, Work kWork, int kCount>
__device__ __forceinline__ void order_beside_matrix() {}

/// Waits for all of this thread's copies.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace fmhax::portable
