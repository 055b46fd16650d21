#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "isa.hpp"
#include "tensor.hpp"

namespace fmhax::cpu::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class F>
void for_each_isa(F&& f) {
  for (int level = 0; level <= static_cast<int>(detected_isa()); ++level) {
    CAPTURE(level);
    f(static_cast<Isa>(level));
  }
}

std::vector<float> random_values(std::size_t count, std::mt19937& generator) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

std::vector<float> exponentials(const TileOps& ops, std::vector<float> x) {
  const std::size_t size = x.size();
  x.resize((size + 15) / 16 * 16, 0.0F);
  std::vector<float> result(x.size());
  ops.exponential(x.data(), static_cast<std::int64_t>(x.size()), result.data());
  result.resize(size);
  return result;
}

// Values of every size, in groups of 8.
std::vector<float> widened(const TileOps& ops, const std::vector<std::uint16_t>& bits) {
  std::vector<float> result(bits.size());
  ops.widen(bits.data(), static_cast<std::int64_t>(bits.size()), result.data());
  return result;
}

std::vector<std::uint16_t> narrowed(const TileOps& ops, const std::vector<float>& values) {
  std::vector<std::uint16_t> result(values.size());
  ops.narrow(values.data(), static_cast<std::int64_t>(values.size()), result.data());
  return result;
}

std::vector<std::uint16_t> all_bits() {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return bits;
}

}  // namespace

TEST_CASE("products agree with plain loops for every remainder of rows, columns and depth") {
  std::mt19937 generator(3);
  for_each_isa([&](Isa isa) {
    const TileOps& ops = tile_ops(isa, DataType::fp32);
    for (const bool transposed : {false, true}) {
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 64, 65}) {
        for (const std::int64_t columns : {16, 32, 48, 64, 80, 144}) {
          for (const std::int64_t depth : {1, 2, 63, 64, 65, 130}) {
            for (const bool accumulate : {false, true}) {
              const std::int64_t a_stride = (transposed ? rows : depth) + 3, b_stride = columns + 5;
              const std::int64_t c_stride = columns + 1;
              const auto a = random_values(static_cast<std::size_t>(a_stride * (transposed ? depth : rows)), generator);
              const auto b = random_values(static_cast<std::size_t>(b_stride * depth), generator);
              const auto before = random_values(static_cast<std::size_t>(c_stride * rows), generator);
              auto c = before;
              ops.gemm(transposed, a.data(), a_stride, b.data(), b_stride, c.data(), c_stride, rows, columns, depth,
                       accumulate);
              double worst = 0.0;
              bool is_rest_untouched = true;
              for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t n = 0; n < columns; ++n) {
                  const auto at = static_cast<std::size_t>(r * c_stride + n);
                  double want = accumulate ? before[at] : 0.0;
                  double magnitude = std::abs(want);
                  for (std::int64_t k = 0; k < depth; ++k) {
                    const auto left = static_cast<std::size_t>(transposed ? k * a_stride + r : r * a_stride + k);
                    const double term = static_cast<double>(a[left]) * b[static_cast<std::size_t>(k * b_stride + n)];
                    want += term;
                    magnitude += std::abs(term);
                  }
                  // The most that rounding can do: half a unit of each partial sum.
                  const double bound = 0x1p-24 * static_cast<double>(depth + 2) * magnitude;
                  worst = std::max(worst, std::abs(want - c[at]) / bound);
                }
                const auto gap = static_cast<std::size_t>(r * c_stride + columns);
                is_rest_untouched = is_rest_untouched && c[gap] == before[gap];
              }
              CHECK(worst <= 1.0);
              CHECK(is_rest_untouched);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("a product of depth zero clears C or leaves it") {
  for_each_isa([](Isa isa) {
    const TileOps& ops = tile_ops(isa, DataType::fp32);
    std::vector<float> c(64, 3.0F);
    const float none = 0.0F;
    ops.gemm(false, &none, 1, &none, 16, c.data(), 16, 4, 16, 0, true);
    CHECK(c == std::vector<float>(64, 3.0F));
    ops.gemm(false, &none, 1, &none, 16, c.data(), 16, 4, 16, 0, false);
    CHECK(c == std::vector<float>(64, 0.0F));
  });
}

TEST_CASE("exp is right to a unit in the last place over its whole range") {
  for_each_isa([](Isa isa) {
    std::vector<float> x;
    for (int i = 0; i <= 2000000; ++i) x.push_back(-87.3F + static_cast<float>(i) * (87.3F + 88.3F) / 2000000.0F);
    for (int i = 0; i < 200000; ++i) x.push_back(-1.0F + static_cast<float>(i) * 1e-5F);
    const std::vector<float> y = exponentials(tile_ops(isa, DataType::fp32), x);
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      worst = std::max(worst, std::abs(y[i] - want) / ulp);
    }
    // Without fused multiply-add the reduction rounds once more.
    CHECK(worst <= (isa == Isa::generic ? 1.5 : 1.0));
  });
}

TEST_CASE("exp of special values is exact") {
  for_each_isa([](Isa isa) {
    const TileOps& ops = tile_ops(isa, DataType::fp32);
    const auto y = exponentials(ops, {-kInf, -1e30F, -200.0F, -88.0F, 0.0F, -0.0F, 89.0F, 1e30F, kInf, kNan, -kNan});
    for (const std::size_t i : {0U, 1U, 2U, 3U}) CHECK(std::bit_cast<std::uint32_t>(y[i]) == 0);
    CHECK(y[4] == 1.0F);
    CHECK(y[5] == 1.0F);
    for (const std::size_t i : {6U, 7U, 8U}) CHECK(y[i] == kInf);
    CHECK(std::isnan(y[9]));
    CHECK(std::isnan(y[10]));
  });
}

TEST_CASE("all 65536 values of both 16-bit types widen exactly") {
  for_each_isa([](Isa isa) {
    for (const DataType dtype : {DataType::fp16, DataType::bf16}) {
      const auto bits = all_bits();
      const auto values = widened(tile_ops(isa, dtype), bits);
      int wrong = 0;
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const double want = plain_widen(dtype, bits[i]);
        const bool is_same = std::isnan(want) ? std::isnan(values[i])
                                              : want == values[i] && std::signbit(want) == std::signbit(values[i]);
        wrong += is_same ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("narrowing rounds to nearest even around all 65536 values") {
  for_each_isa([](Isa isa) {
    for (const DataType dtype : {DataType::fp16, DataType::bf16}) {
      std::vector<float> values;
      for (const std::uint16_t bits : all_bits()) {
        const double value = plain_widen(dtype, bits);
        const double next = plain_widen(dtype, static_cast<std::uint16_t>(bits + 1));
        // The value itself, the midpoint to the next, and the floats on either side of the midpoint.
        values.push_back(static_cast<float>(value));
        double middle = value + (next - value) / 2;
        if (std::isinf(next) && !std::isinf(value))
          middle = value * (1.0 + (dtype == DataType::fp16 ? 0x1p-12 : 0x1p-9));
        const auto rounded = static_cast<float>(middle);
        for (const float v : {rounded, std::nextafter(rounded, -kInf), std::nextafter(rounded, kInf)}) {
          values.push_back(v);
        }
      }
      values.resize((values.size() + 7) / 8 * 8, 0.0F);
      const auto bits = narrowed(tile_ops(isa, dtype), values);
      int wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_same =
            std::isnan(values[i]) ? std::isnan(plain_widen(dtype, bits[i])) : bits[i] == plain_narrow(dtype, values[i]);
        wrong += is_same ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("narrowing overflows to infinity and keeps signs and NaN") {
  for_each_isa([](Isa isa) {
    const std::vector<float> values = {65519.9F, 65520.0F, -65520.0F, 1e38F, kInf, -kInf, -0.0F, kNan};
    const auto half = narrowed(tile_ops(isa, DataType::fp16), values);
    CHECK(half[0] == 0x7bff);
    CHECK(half[1] == 0x7c00);
    CHECK(half[2] == 0xfc00);
    CHECK(half[3] == 0x7c00);
    CHECK(half[4] == 0x7c00);
    CHECK(half[5] == 0xfc00);
    CHECK(half[6] == 0x8000);
    CHECK(std::isnan(plain_widen(DataType::fp16, half[7])));
    // A NaN whose high bits are zero must not become infinity, nor must rounding carry it away.
    const std::vector<float> nans = {std::bit_cast<float>(0x7f800001U),
                                     std::bit_cast<float>(0x7fffffffU),
                                     std::bit_cast<float>(0xff800001U),
                                     std::bit_cast<float>(0xffffffffU),
                                     3.4e38F,
                                     -3.4e38F,
                                     kNan,
                                     kNan};
    for (const DataType dtype : {DataType::fp16, DataType::bf16}) {
      const auto bits = narrowed(tile_ops(isa, dtype), nans);
      for (const std::size_t i : {0U, 1U, 2U, 3U, 6U, 7U}) CHECK(std::isnan(plain_widen(dtype, bits[i])));
      CHECK(plain_widen(dtype, bits[4]) == kInf);
      CHECK(plain_widen(dtype, bits[5]) == -kInf);
    }
  });
}

}  // namespace fmhax::cpu::test
