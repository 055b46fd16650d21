/// @file The data loader: packs other documents into a batch at every step.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace fmhax::train {

/// What a batch may hold at most. One graph serves every batch within it.
struct BatchShape {
  std::int64_t tokens = 1024;
  std::int64_t max_documents = 32;
  std::int64_t longest = 384;  ///< tokens of one document
};

/// A batch in host or device memory: one block, so that one copy uploads it.
struct BatchView {
  std::int32_t* tokens = nullptr;        ///< [tokens] the byte before each target, kDocumentStart for the first
  std::int32_t* targets = nullptr;       ///< [tokens] the document's bytes, kNoTarget where the batch is not full
  std::int32_t* positions = nullptr;     ///< [tokens] counted from each document's start
  std::int32_t* seqstart = nullptr;      ///< [max_documents + 1] the unused ones repeat the last
  std::int32_t* target_count = nullptr;  ///< [1]

  /// Elements of a block, and the view of one.
  static std::int64_t block_size(const BatchShape& shape);
  static BatchView of_block(const BatchShape& shape, std::int32_t* block);
};

inline constexpr std::int32_t kDocumentStart = 0;  ///< a byte that text does not contain
inline constexpr std::int64_t kVocabulary = 256;

/// Deals documents into batches in a shuffled order, reshuffled when all were used. The order depends on the seed
/// alone, and is the same with every standard library. Not thread-safe: one stream's host functions call it in turn.
class Loader {
 public:
  /// The documents' bytes must outlive the loader; each fits the shape. At most `steps` compositions are counted.
  /// Throws std::invalid_argument.
  Loader(std::vector<std::string_view> documents, const BatchShape& shape, std::uint64_t seed, std::int64_t steps);

  /// Writes the next batch. Allocates nothing, throws nothing: it runs in a host function.
  void load(const BatchView& batch) noexcept;

  /// How many of the batches so far have different sequence starts.
  std::int64_t distinct_batches() const;

 private:
  void shuffle() noexcept;

  std::vector<std::string_view> documents_;
  BatchShape shape_;
  std::mt19937_64 random_;
  std::size_t next_ = 0;
  std::vector<std::uint64_t> compositions_;  ///< a hash of each batch's sequence starts
};

}  // namespace fmhax::train
