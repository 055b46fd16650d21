#include "loader.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "kernels.hpp"

namespace fmhax::train {
namespace {

/// FNV-1a over the values' bytes.
std::uint64_t hash_of(const std::int32_t* values, std::int64_t count) {
  std::uint64_t hash = 14695981039346656037U;
  for (std::int64_t i = 0; i < count; ++i) {
    for (int byte = 0; byte < 4; ++byte) {
      hash ^= (static_cast<std::uint32_t>(values[i]) >> (8 * byte)) & 0xffU;
      hash *= 1099511628211U;
    }
  }
  return hash;
}

}  // namespace

std::int64_t BatchView::block_size(const BatchShape& shape) { return 3 * shape.tokens + shape.max_documents + 2; }

BatchView BatchView::of_block(const BatchShape& shape, std::int32_t* block) {
  return {.tokens = block,
          .targets = block + shape.tokens,
          .positions = block + 2 * shape.tokens,
          .seqstart = block + 3 * shape.tokens,
          .target_count = block + 3 * shape.tokens + shape.max_documents + 1};
}

Loader::Loader(std::vector<std::string_view> documents, const BatchShape& shape, std::uint64_t seed, std::int64_t steps)
    : documents_(std::move(documents)), shape_(shape), random_(seed) {
  if (documents_.empty()) throw std::invalid_argument("the loader needs at least one document");
  for (const std::string_view document : documents_) {
    const auto length = static_cast<std::int64_t>(document.size());
    if (length < 1 || length > std::min(shape.longest, shape.tokens)) {
      throw std::invalid_argument(
          fmt::format("a document of {} bytes: 1 to {} are allowed", length, std::min(shape.longest, shape.tokens)));
    }
  }
  compositions_.reserve(static_cast<std::size_t>(steps));
  shuffle();
}

void Loader::shuffle() noexcept {
  for (std::size_t i = documents_.size() - 1; i > 0; --i) std::swap(documents_[i], documents_[random_() % (i + 1)]);
  next_ = 0;
}

void Loader::load(const BatchView& batch) noexcept {
  std::int64_t token = 0;
  std::int64_t document = 0;
  batch.seqstart[0] = 0;
  for (; document < shape_.max_documents; ++document) {
    if (next_ == documents_.size()) shuffle();
    const std::string_view text = documents_[next_];
    if (token + static_cast<std::int64_t>(text.size()) > shape_.tokens) break;  // it opens the next batch
    ++next_;
    std::int32_t previous = kDocumentStart;
    std::int32_t position = 0;
    for (const char c : text) {
      batch.tokens[token] = previous;
      batch.targets[token] = previous = static_cast<unsigned char>(c);
      batch.positions[token] = position++;
      ++token;
    }
    batch.seqstart[document + 1] = static_cast<std::int32_t>(token);
  }
  *batch.target_count = static_cast<std::int32_t>(token);
  std::fill(batch.seqstart + document, batch.seqstart + shape_.max_documents + 1, static_cast<std::int32_t>(token));
  std::fill(batch.tokens + token, batch.tokens + shape_.tokens, kDocumentStart);
  std::fill(batch.targets + token, batch.targets + shape_.tokens, kNoTarget);
  std::fill(batch.positions + token, batch.positions + shape_.tokens, 0);

  if (compositions_.size() < compositions_.capacity()) {
    compositions_.push_back(hash_of(batch.seqstart, shape_.max_documents + 1));
  }
}

std::int64_t Loader::distinct_batches() const {
  return static_cast<std::int64_t>(std::set<std::uint64_t>(compositions_.begin(), compositions_.end()).size());
}

}  // namespace fmhax::train
