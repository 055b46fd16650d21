#include "loader.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels.hpp"

namespace fmhax::train::test {
namespace {

/// A batch in ordinary memory that starts as nonsense.
struct HostBatch {
  explicit HostBatch(const BatchShape& shape)
      : block(static_cast<std::size_t>(BatchView::block_size(shape)), -77),
        view(BatchView::of_block(shape, block.data())) {}
  std::vector<std::int32_t> block;
  BatchView view;
};

std::vector<std::string> texts_of_lengths(std::initializer_list<std::size_t> lengths) {
  std::vector<std::string> texts;
  char letter = 'a';
  for (const std::size_t length : lengths) texts.emplace_back(length, letter++);
  return texts;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

TEST_CASE("a batch is a packing of whole documents, and what it leaves unused has no target") {
  const BatchShape shape{.tokens = 40, .max_documents = 6, .longest = 17};
  const auto texts = texts_of_lengths({1, 2, 17, 9, 5, 13, 17, 3});
  Loader loader(views(texts), shape, 5, 100);
  std::map<std::string, int> seen;
  for (int step = 0; step < 100; ++step) {
    HostBatch batch(shape);
    const BatchView& b = batch.view;
    loader.load(b);
    REQUIRE(b.seqstart[0] == 0);
    for (std::int64_t d = 0; d < shape.max_documents; ++d) {
      const std::int64_t begin = b.seqstart[d];
      const std::int64_t end = b.seqstart[d + 1];
      REQUIRE(begin <= end);
      REQUIRE(end <= shape.tokens);
      std::string document;
      for (std::int64_t t = begin; t < end; ++t) {
        CHECK(b.positions[t] == t - begin);
        CHECK(b.tokens[t] == (t == begin ? kDocumentStart : b.targets[t - 1]));
        document += static_cast<char>(b.targets[t]);
      }
      if (!document.empty()) ++seen[document];
    }
    const std::int64_t used = b.seqstart[shape.max_documents];
    CHECK(*b.target_count == used);
    CHECK(used > 0);
    for (std::int64_t t = used; t < shape.tokens; ++t) {
      CHECK(b.tokens[t] == kDocumentStart);
      CHECK(b.targets[t] == kNoTarget);
      CHECK(b.positions[t] == 0);
    }
  }
  REQUIRE(seen.size() == texts.size());
  for (const std::string& text : texts) REQUIRE(seen.count(text) == 1);
  // Every pass deals every document once, so their numbers differ by one pass at most.
  for (const auto& [document, count] : seen) CHECK(std::abs(count - seen.begin()->second) <= 1);
  CHECK(loader.distinct_batches() > 20);
}

TEST_CASE("the number of documents is limited too, and unused starts repeat the last") {
  const BatchShape shape{.tokens = 100, .max_documents = 3, .longest = 10};
  const auto texts = texts_of_lengths({4, 4, 4, 4});
  Loader loader(views(texts), shape, 1, 2);
  HostBatch batch(shape);
  loader.load(batch.view);
  CHECK(std::vector<std::int32_t>(batch.view.seqstart, batch.view.seqstart + 4) ==
        std::vector<std::int32_t>{0, 4, 8, 12});

  const BatchShape roomy{.tokens = 10, .max_documents = 5, .longest = 10};
  Loader second(views(texts), roomy, 1, 2);
  HostBatch partly_empty(roomy);
  second.load(partly_empty.view);
  CHECK(std::vector<std::int32_t>(partly_empty.view.seqstart, partly_empty.view.seqstart + 6) ==
        std::vector<std::int32_t>{0, 4, 8, 8, 8, 8});
}

TEST_CASE("the seed decides the order") {
  const BatchShape shape{.tokens = 40, .max_documents = 6, .longest = 17};
  const auto texts = texts_of_lengths({1, 2, 17, 9, 5, 13, 17, 3});
  const auto first_blocks = [&](std::uint64_t seed) {
    Loader loader(views(texts), shape, seed, 10);
    std::vector<std::vector<std::int32_t>> blocks;
    for (int step = 0; step < 10; ++step) {
      HostBatch batch(shape);
      loader.load(batch.view);
      blocks.push_back(batch.block);
    }
    return blocks;
  };
  CHECK(first_blocks(3) == first_blocks(3));
  CHECK(first_blocks(3) != first_blocks(4));
}

TEST_CASE("bytes above 127 are tokens like any other") {
  const BatchShape shape{.tokens = 8, .max_documents = 1, .longest = 8};
  Loader loader({"\xc3\xbc"}, shape, 1, 1);
  HostBatch batch(shape);
  loader.load(batch.view);
  CHECK(batch.view.targets[0] == 0xc3);
  CHECK(batch.view.tokens[1] == 0xc3);
  CHECK(batch.view.targets[1] == 0xbc);
}

TEST_CASE("documents that do not fit are refused") {
  const BatchShape shape{.tokens = 40, .max_documents = 6, .longest = 4};
  CHECK_THROWS_AS(Loader({"12345"}, shape, 1, 1), std::invalid_argument);
  CHECK_THROWS_AS(Loader({""}, shape, 1, 1), std::invalid_argument);
  CHECK_THROWS_AS(Loader({}, shape, 1, 1), std::invalid_argument);
}

}  // namespace
}  // namespace fmhax::train::test
