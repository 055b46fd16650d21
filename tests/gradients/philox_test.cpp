/// @file Dropout's random bytes: the generator against Random123's published answers, and who gets which byte.
#include "fmhax/contract/philox.hpp"

#include <doctest/doctest.h>

using namespace fmhax;

namespace {

constexpr bool equal(const PhiloxWords& a, const PhiloxWords& b) {
  return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] && a.word[3] == b.word[3];
}

// The lines "philox4x32 10" of the file of known answers that comes with Random123.
static_assert(equal(philox4x32({{0, 0, 0, 0}}, {{0, 0}}), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(equal(philox4x32({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}}),
                    {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
static_assert(equal(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));

}  // namespace

TEST_CASE("a pair's byte comes from the counter and key that the header documents") {
  constexpr std::uint64_t kSeed = 0x0123456789ABCDEF;
  constexpr std::uint64_t kOffset = 0x1122334455667788;
  const PhiloxWords words = dropout_bytes(dropout_stream(kSeed, kOffset), /*head=*/7, /*row=*/300, /*key_block=*/2);
  CHECK(equal(words, philox4x32({{300, 2, 7, 0x55667788}}, {{0x89ABCDEF, 0x01234567 ^ 0x11223344}})));
  for (std::int64_t i = 0; i < kDropoutKeys; ++i) {
    CHECK(dropout_byte(words, i) == ((words.word[i / 4] >> (8 * (i % 4))) & 0xFF));
  }
}

TEST_CASE("seed and offset from memory count before those by value") {
  const std::uint64_t seed = 5;
  const std::uint64_t offset = 6;
  const auto same = [](const DropoutStream& a, const DropoutStream& b) {
    return a.key.word[0] == b.key.word[0] && a.key.word[1] == b.key.word[1] && a.offset_low == b.offset_low;
  };
  CHECK(same(dropout_stream(DropoutArguments{0.5F, 1, 2, nullptr, nullptr}), dropout_stream(1, 2)));
  CHECK(same(dropout_stream(DropoutArguments{0.5F, 1, 2, &seed, nullptr}), dropout_stream(5, 2)));
  CHECK(same(dropout_stream(DropoutArguments{0.5F, 1, 2, &seed, &offset}), dropout_stream(5, 6)));
}

TEST_CASE("the share that is kept follows the probability") {
  CHECK(dropout_threshold(0.0F) == 255);
  CHECK(dropout_threshold(0.5F) == 127);
  CHECK(dropout_threshold(0.2F) == 204);
  CHECK(dropout_scale(0.5F) == 2.0F);
  std::int64_t kept = 0;
  constexpr std::int64_t kRows = 2000;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const PhiloxWords words = dropout_bytes(dropout_stream(1, 0), 3, row, 0);
    for (std::int64_t i = 0; i < kDropoutKeys; ++i) kept += dropout_byte(words, i) <= dropout_threshold(0.25F) ? 1 : 0;
  }
  // 192 of 256 bytes are kept; 32 000 draws deviate by 0.0024 typically.
  CHECK(static_cast<double>(kept) / (kRows * kDropoutKeys) == doctest::Approx(0.75).epsilon(0.02));
}
