// The order of dq_acc's elements: pure functions, tested without a GPU.
#include "dq_acc_order.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace fmhax::portable;

TEST_CASE("dq_acc has one place for each element, whatever number of rows is left over") {
  for (const int hdim : {8, 16, 24, 64, 136, 256}) {
    for (const std::int64_t rows : {1, 7, 8, 9, 16, 30}) {
      std::vector<int> found(static_cast<std::size_t>(rows * hdim));
      for (std::int64_t row = 0; row < rows; ++row) {
        for (int position = 0; position < hdim; ++position) {
          const std::int64_t element = dq_acc_element(row, position, rows, hdim);
          REQUIRE(element >= 0);
          REQUIRE(element < rows * hdim);
          ++found[static_cast<std::size_t>(element)];
        }
      }
      CHECK(found == std::vector<int>(found.size(), 1));
    }
  }
}

TEST_CASE("what a warp adds at once is one piece of memory, in the order of its lanes") {
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(dq_acc_element(16 + lane / 4, 32 + lane % 4 * 4, 30, 64) == 16 * 64 + 2 * 128 + lane * 4);
  }
  // Two rows are left of 26: their 16 columns lie together too.
  CHECK(dq_acc_element(25, 32, 26, 64) == 24 * 64 + 2 * 32 + 16);
}

TEST_CASE("each column of dq has one position in a row") {
  for (const int hdim : {8, 24, 64}) {
    std::vector<int> found(static_cast<std::size_t>(hdim));
    for (int position = 0; position < hdim; ++position) ++found[static_cast<std::size_t>(dq_column(position, hdim))];
    CHECK(found == std::vector<int>(found.size(), 1));
  }
}

}  // namespace
