// The orders of dq_acc's elements: pure functions, tested without a GPU.
#include "dq_acc_order.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace fmhax::portable;

TEST_CASE_TEMPLATE("dq_acc has one place for each element, whatever number of rows is left over", Order, QuadsByRows,
                   QuadsByElements) {
  for (const int hdim : {8, 16, 24, 64, 136, 256}) {
    for (const std::int64_t rows : {1, 7, 8, 9, 16, 30}) {
      std::vector<int> found(static_cast<std::size_t>(rows * hdim));
      for (std::int64_t row = 0; row < rows; ++row) {
        for (int quad = 0; quad < hdim / 4; ++quad) {
          const QuadPlace place = dq_acc_quad<Order>(row, quad, rows, hdim);
          for (int i = 0; i < 4; ++i) {
            const std::int64_t element = place.first + i * place.stride;
            REQUIRE(element >= 0);
            REQUIRE(element < rows * hdim);
            ++found[static_cast<std::size_t>(element)];
          }
        }
      }
      CHECK(found == std::vector<int>(found.size(), 1));
    }
  }
}

TEST_CASE("quads by rows: what a warp adds at once is one piece of memory, in the order of its lanes") {
  for (int lane = 0; lane < 32; ++lane) {
    const QuadPlace place = dq_acc_quad<QuadsByRows>(16 + lane / 4, 2 * 4 + lane % 4, 30, 64);
    CHECK(place.first == 16 * 64 + 2 * 128 + lane * 4);
    CHECK(place.stride == 1);
  }
  // Two rows are left of 26: their 16 columns lie together too.
  CHECK(dq_acc_quad<QuadsByRows>(25, 2 * 4, 26, 64).first == 24 * 64 + 2 * 32 + 16);
}

TEST_CASE("quads by elements: the first elements of 16 rows are one piece of memory, in the order of the lanes") {
  for (int lane = 0; lane < 64; ++lane) {
    const QuadPlace place = dq_acc_quad<QuadsByElements>(16 + lane % 16, 2 * 4 + lane / 16, 40, 64);
    CHECK(place.first == 16 * 64 + 2 * 256 + lane);
    CHECK(place.stride == 64);
  }
  // Two rows are left of 34.
  CHECK(dq_acc_quad<QuadsByElements>(33, 2 * 4 + 3, 34, 64).first == 32 * 64 + 2 * 32 + 3 * 2 + 1);
}

TEST_CASE_TEMPLATE("each column of dq has one position in a row", Order, QuadsByRows, QuadsByElements) {
  for (const int hdim : {8, 24, 64}) {
    std::vector<int> found(static_cast<std::size_t>(hdim));
    for (int i = 0; i < hdim; ++i) ++found[static_cast<std::size_t>(Order::column(i, hdim))];
    CHECK(found == std::vector<int>(found.size(), 1));
  }
}

}  // namespace
