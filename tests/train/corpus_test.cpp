#include "corpus.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

namespace fmhax::train::test {
namespace {

std::string without_space(std::string_view text) {
  std::string rest;
  for (const char c : text) {
    if (std::string_view(" \t\r\n\f\v").find(c) == std::string_view::npos) rest += c;
  }
  return rest;
}

/// What must hold for every text: order, lengths, and that nothing but white space is lost.
void check_cut(std::string_view text, std::int64_t longest) {
  std::string kept;
  const char* end_of_last = text.data();
  for (const std::string_view document : cut_documents(text, longest)) {
    CHECK(!document.empty());
    CHECK(static_cast<std::int64_t>(document.size()) <= longest);
    CHECK(document.data() >= end_of_last);
    end_of_last = document.data() + document.size();
    kept += without_space(document);
  }
  CHECK(end_of_last <= text.data() + text.size());
  CHECK(kept == without_space(text));
}

TEST_CASE("a document is a paragraph, with its indentation and without the blank lines around it") {
  const auto documents = cut_documents("\n \n  Title\n\n\t\nFirst line\nsecond line  \n \nx", 100);
  REQUIRE(documents.size() == 3);
  CHECK(documents[0] == "  Title");
  CHECK(documents[1] == "First line\nsecond line");
  CHECK(documents[2] == "x");
}

TEST_CASE("a long paragraph is cut after a sentence, else after a word, else anywhere") {
  CHECK(cut_documents("One two. Three four", 12) == std::vector<std::string_view>{"One two.", "Three four"});
  CHECK(cut_documents("alpha beta gamma", 12) == std::vector<std::string_view>{"alpha beta", "gamma"});
  CHECK(cut_documents("abcdefgh", 3) == std::vector<std::string_view>{"abc", "def", "gh"});
  CHECK(cut_documents("exactly ten", 11) == std::vector<std::string_view>{"exactly ten"});
}

TEST_CASE("random text of words, blanks and line breaks loses nothing but white space, for every longest document") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "ab.  \n\n\t;"[random() % 9];
    for (const std::int64_t longest : {1, 2, 3, 7, 16, 100, 1000}) check_cut(text, longest);
  }
  check_cut("", 10);
  check_cut(" \n\n ", 10);
}

TEST_CASE("the licence texts give documents from a few bytes to the longest allowed") {
  const std::string text = read_text(licence_texts());
  CHECK(text.size() >= 200'000);
  check_cut(text, 384);
  std::int64_t short_ones = 0;
  std::int64_t long_ones = 0;
  for (const std::string_view document : cut_documents(text, 384)) {
    if (document.size() <= 16) ++short_ones;
    if (document.size() > 350) ++long_ones;
  }
  CHECK(short_ones >= 10);
  CHECK(long_ones >= 100);
}

TEST_CASE("too little text and files that can't be read are refused by name") {
  const auto file = std::filesystem::temp_directory_path() / "fmhax-train-corpus-test.txt";
  std::ofstream(file) << "Too short to learn from.";
  CHECK_THROWS_WITH_AS(read_text({file.string()}), doctest::Contains("too few"), std::runtime_error);
  std::filesystem::remove(file);
  CHECK_THROWS_WITH_AS(read_text({file.string()}), doctest::Contains(file.c_str()), std::runtime_error);
  CHECK_THROWS_AS(read_text({std::filesystem::temp_directory_path().string()}), std::runtime_error);
}

}  // namespace
}  // namespace fmhax::train::test
