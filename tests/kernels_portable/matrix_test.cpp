// Products through the trait of arch/mma.cuh against plain loops. Elements are -1, 0 or 1, so that all sums are exact.
#include <hip/hip_runtime.h>

#include <array>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "device_case.hpp"
#include "matrix_kernels.hpp"
#include "verification/half.hpp"

namespace {

using namespace fmhax;
using namespace fmhax::portable::test;
using verification::check_hip;
using verification::GuardedBuffer;
using verification::Random;

template <int kRows, int kColumns>
struct Matrix {
  std::vector<double> values = std::vector<double>(std::size_t{kRows} * kColumns);
  double& at(int row, int column) { return values[static_cast<std::size_t>(row * kColumns + column)]; }
  double at(int row, int column) const { return values[static_cast<std::size_t>(row * kColumns + column)]; }
  bool operator==(const Matrix&) const = default;
};
using Left = Matrix<kProductRows, kProductDepth>;
using Right = Matrix<kProductDepth, kProductColumns>;
using Product = Matrix<kProductRows, kProductColumns>;
using FirstColumns = Matrix<kProductRows, 16>;

template <class M>
M drawn(Random& random) {
  M matrix;
  for (double& value : matrix.values) value = static_cast<double>(random.integer(-1, 1));
  return matrix;
}

/// The first kDepth columns of `left` times as many rows of `right`.
template <int kDepth, class L>
Product product_of(const L& left, const Right& right) {
  Product product;
  for (int row = 0; row < kProductRows; ++row) {
    for (int column = 0; column < kProductColumns; ++column) {
      for (int depth = 0; depth < kDepth; ++depth) {
        product.at(row, column) += left.at(row, depth) * right.at(depth, column);
      }
    }
  }
  return product;
}

/// As the kernel finds it in memory.
template <int kRows, int kColumns>
std::vector<std::byte> laid_out(const Matrix<kRows, kColumns>& matrix, DataType dtype, bool is_transposed,
                                int elements) {
  std::vector<std::byte> memory(static_cast<std::size_t>(elements) * sizeof(std::uint16_t));
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const int at = is_transposed ? column * kOperandPitch + row : row * kOperandPitch + column;
      verification::store_element(dtype, memory.data(), at, matrix.at(row, column));
    }
  }
  return memory;
}

unsigned warp_size() {
  hipDeviceProp_t properties{};
  check_hip(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
  return static_cast<unsigned>(properties.warpSize);
}

struct Results {
  Product sums, quads, next;
  FirstColumns stored;
};

struct Ways {
  LeftWay left;
  RightWay right;
};

Results multiply(DataType dtype, Ways ways, const Left& left, const Right& right, int lane_error) {
  const std::size_t products = std::size_t{kProductRows} * kProductColumns;
  const std::size_t stored_elements = std::size_t{16} * kOperandPitch;
  GuardedBuffer left_memory(kLeftElements * sizeof(std::uint16_t)),
      right_memory(kRightElements * sizeof(std::uint16_t));
  GuardedBuffer sums(products * sizeof(float)), quads(products * sizeof(std::uint16_t));
  GuardedBuffer stored(stored_elements * sizeof(std::uint16_t)), next(products * sizeof(float));
  left_memory.upload(laid_out(left, dtype, ways.left == LeftWay::transposed, kLeftElements));
  right_memory.upload(
      laid_out(right, dtype, ways.right == RightWay::transposed || ways.right == RightWay::deep, kRightElements));
  ProductArguments arguments{static_cast<const std::uint16_t*>(left_memory.data()),
                             static_cast<const std::uint16_t*>(right_memory.data()),
                             static_cast<float*>(sums.data()),
                             static_cast<std::uint16_t*>(quads.data()),
                             static_cast<std::uint16_t*>(stored.data()),
                             static_cast<float*>(next.data()),
                             lane_error};
  void* pointer = &arguments;
  check_hip(
      hipLaunchKernel(product_kernel(dtype, ways.left, ways.right), dim3(1), dim3(warp_size()), &pointer, 0, nullptr),
      "hipLaunchKernel");
  check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");

  Results results;
  const auto floats = [](const GuardedBuffer& buffer, Product& to) {
    const std::vector<float> values = values_of<float>(buffer.download());
    to.values.assign(values.begin(), values.end());
  };
  floats(sums, results.sums);
  floats(next, results.next);
  const std::vector<std::byte> rounded = quads.download();
  for (std::size_t i = 0; i < products; ++i) {
    results.quads.values[i] = verification::load_element(dtype, rounded.data(), static_cast<std::int64_t>(i));
  }
  const std::vector<std::byte> tile = stored.download();
  for (int row = 0; row < kProductRows; ++row) {
    for (int column = 0; column < 16; ++column) {
      const int at = keys_along_rows() ? column * kOperandPitch + row : row * kOperandPitch + column;
      results.stored.at(row, column) = verification::load_element(dtype, tile.data(), at);
    }
  }
  return results;
}

constexpr std::array kWays = {Ways{LeftWay::by_rows, RightWay::by_rows},
                              Ways{LeftWay::by_rows, RightWay::transposed},
                              Ways{LeftWay::by_rows, RightWay::grouped},
                              Ways{LeftWay::transposed, RightWay::by_rows},
                              Ways{LeftWay::transposed, RightWay::transposed},
                              Ways{LeftWay::transposed, RightWay::grouped},
                              Ways{LeftWay::deep, RightWay::deep}};

TEST_CASE("a product is the same whichever way its operands lie, and wherever its sums go") {
  Random random(7, 0);
  for (const DataType dtype : {DataType::fp16, DataType::bf16}) {
    for (const Ways ways : kWays) {
      CAPTURE(static_cast<int>(dtype));
      CAPTURE(static_cast<int>(ways.left));
      CAPTURE(static_cast<int>(ways.right));
      const Left left = drawn<Left>(random);
      const Right right = drawn<Right>(random);
      const Product expected = product_of<kProductDepth>(left, right);
      FirstColumns first;
      const int step = ways.right == RightWay::grouped ? column_group() : 1;
      for (int row = 0; row < kProductRows; ++row) {
        for (int column = 0; column < 16; ++column) first.at(row, column) = expected.at(row, column * step);
      }
      const Results results = multiply(dtype, ways, left, right, 0);
      CHECK(results.sums == expected);
      CHECK(results.quads == expected);
      CHECK(results.stored == first);
      if (ways.right == RightWay::by_rows || ways.right == RightWay::grouped) {
        CHECK(results.next == product_of<16>(first, right));
      }
    }
  }
}

TEST_CASE("operands in the wrong lanes are noticed") {
  Random random(7, 1);
  const Left left = drawn<Left>(random);
  const Right right = drawn<Right>(random);
  const Product expected = product_of<kProductDepth>(left, right);
  for (const Ways ways : kWays) {
    CAPTURE(static_cast<int>(ways.left));
    CAPTURE(static_cast<int>(ways.right));
    for (const int lane_error : {1, 4, 16})
      CHECK(multiply(DataType::bf16, ways, left, right, lane_error).sums != expected);
  }
}

}  // namespace
