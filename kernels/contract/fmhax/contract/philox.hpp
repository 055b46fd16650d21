/// @file Dropout's random bytes. They depend on seed, offset, sequence, query head, row and key alone, never on how a
/// kernel cuts its work, so that a forward pass of any make can draw the same ones.
///
/// Generator: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC11), with
///
///   key      {seed low, seed high ^ offset high}
///   counter  {i, j / 16, b * nhead_q + h, offset low}
///
/// for query row i and key j within sequence b and query head h; each number's low 32 bits. The four words of the
/// result, little endian, are the bytes of keys 16 * (j / 16) and the 15 after it. A pair is kept when its byte is at
/// most floor((1 - probability) * 255), computed in fp32; what is kept is multiplied by 1 / (1 - probability).
#pragma once

#include <cstdint>

#include "fmhax/contract/platform_macros.hpp"

namespace fmhax {

/// How a call draws. The pointers are read by the kernels, so that each replay of a graph may find other values there.
struct DropoutArguments {
  float probability = 0.0F;  ///< of being dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  const std::uint64_t* seed_pointer = nullptr;    ///< device memory; null: seed
  const std::uint64_t* offset_pointer = nullptr;  ///< device memory; null: offset

  friend constexpr bool operator==(const DropoutArguments&, const DropoutArguments&) = default;
};

/// Four words: a counter of Philox, and its output.
struct PhiloxWords {
  std::uint32_t word[4];
};

struct PhiloxKey {
  std::uint32_t word[2];
};

/// Philox 4x32 with ten rounds.
FMHAX_HOST_DEVICE constexpr PhiloxWords philox4x32(PhiloxWords counter, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // the golden ratio's fraction
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter.word[0];
    const std::uint64_t product1 = kMultiplier1 * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(product0)}};
    key.word[0] += kWeyl0;
    key.word[1] += kWeyl1;
  }
  return counter;
}

/// Keys whose bytes come from one call of the generator.
inline constexpr std::int64_t kDropoutKeys = 16;

/// What one launch draws with.
struct DropoutStream {
  PhiloxKey key;
  std::uint32_t offset_low;
};

FMHAX_HOST_DEVICE constexpr DropoutStream dropout_stream(std::uint64_t seed, std::uint64_t offset) {
  return {{{static_cast<std::uint32_t>(seed),
            static_cast<std::uint32_t>(seed >> 32) ^ static_cast<std::uint32_t>(offset >> 32)}},
          static_cast<std::uint32_t>(offset)};
}

/// Reads the pointers: for kernels.
FMHAX_HOST_DEVICE constexpr DropoutStream dropout_stream(const DropoutArguments& dropout) {
  return dropout_stream(dropout.seed_pointer != nullptr ? *dropout.seed_pointer : dropout.seed,
                        dropout.offset_pointer != nullptr ? *dropout.offset_pointer : dropout.offset);
}

/// The bytes of row `row` and keys [16 * key_block, 16 * key_block + 16); `head` is b * nhead_q + h.
FMHAX_HOST_DEVICE constexpr PhiloxWords dropout_bytes(const DropoutStream& stream, std::int64_t head, std::int64_t row,
                                                      std::int64_t key_block) {
  return philox4x32({{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(key_block),
                      static_cast<std::uint32_t>(head), stream.offset_low}},
                    stream.key);
}

/// Byte `index`, 0 ... 15, of four words.
FMHAX_HOST_DEVICE constexpr std::uint32_t dropout_byte(const PhiloxWords& words, std::int64_t index) {
  return (words.word[index / 4] >> (8 * (index % 4))) & 0xFFU;
}

/// The largest byte that is kept.
FMHAX_HOST_DEVICE constexpr std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>((1.0F - probability) * 255.0F);
}

/// What kept values are multiplied by.
FMHAX_HOST_DEVICE constexpr float dropout_scale(float probability) { return 1.0F / (1.0F - probability); }

}  // namespace fmhax
