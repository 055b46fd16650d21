#include "checked_math.hpp"

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

using fmhax::detail::ceil_div;
using fmhax::detail::Checked;

TEST_CASE("an overflow is remembered through later operations") {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE((Checked{big} * 1).overflow);
  CHECK_FALSE((Checked{big} + 0).overflow);
  CHECK((Checked{big} + 1).overflow);
  CHECK((Checked{big} * 2).overflow);
  CHECK((Checked{big} * 2 * 0).overflow);
  CHECK((Checked{1} + Checked{big} * 2).overflow);
  CHECK((Checked{3} * 4 + 5).value == 17);
}

TEST_CASE("ceil_div rounds up at the far end of the range too") {
  CHECK(ceil_div(0, 64) == 0);
  CHECK(ceil_div(64, 64) == 1);
  CHECK(ceil_div(65, 64) == 2);
  CHECK(ceil_div(std::numeric_limits<std::int64_t>::max(), 2) == (std::int64_t{1} << 62));
}
