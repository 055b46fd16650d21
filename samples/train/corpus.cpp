#include "corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

namespace fmhax::train {
namespace {

constexpr const char* kLicenceFolder = "/usr/share/common-licenses";
constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

std::string_view without_trailing_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

/// The paragraph at the start of `text`, which begins with a line that is not blank.
std::string_view first_paragraph(std::string_view text) {
  std::size_t line = 0;
  while (line < text.size()) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    if (text.substr(line, end - line).find_first_not_of(kWhiteSpace) == std::string_view::npos) break;
    line = end + 1;
  }
  return without_trailing_space(text.substr(0, line));
}

/// How many bytes of a paragraph longer than `longest` to take: 1 to `longest`.
std::size_t cut_position(std::string_view paragraph, std::size_t longest) {
  // The byte after the cut is white space, so one more than `longest` is looked at.
  const std::string_view head = paragraph.substr(0, longest + 1);
  for (std::size_t end = head.size() - 1; end > longest / 2; --end) {
    if (kWhiteSpace.find(head[end]) != std::string_view::npos &&
        std::string_view(".;:").find(head[end - 1]) != std::string_view::npos) {
      return end;
    }
  }
  const std::size_t space = head.find_last_of(kWhiteSpace);
  return space == std::string_view::npos || space == 0 ? longest : space;
}

/// Drops the blank lines at the start, but not the indentation of the first line that is not blank.
std::string_view without_blank_lines(std::string_view text) {
  const std::size_t word = text.find_first_not_of(kWhiteSpace);
  if (word == std::string_view::npos) return {};
  const std::size_t newline = text.substr(0, word).find_last_of('\n');
  return text.substr(newline == std::string_view::npos ? 0 : newline + 1);
}

}  // namespace

std::vector<std::string> licence_texts() {
  std::vector<std::string> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(kLicenceFolder, missing)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path().string());
  }
  if (files.empty()) {
    throw std::runtime_error(fmt::format("there is no text under {}; name some files with --text", kLicenceFolder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_text(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in || !std::filesystem::is_regular_file(file)) {
      throw std::runtime_error(fmt::format("--text {}: can't read this file", file));
    }
    text.append(std::istreambuf_iterator<char>(in), {});
    text += "\n\n";
  }
  if (static_cast<std::int64_t>(text.size()) < kSmallestCorpus) {
    throw std::runtime_error(fmt::format("{} bytes of text in {} file(s) are too few; at least {} are needed",
                                         text.size(), files.size(), kSmallestCorpus));
  }
  return text;
}

std::vector<std::string_view> cut_documents(std::string_view text, std::int64_t longest) {
  if (longest < 1) throw std::invalid_argument(fmt::format("longest document {}: at least 1 is needed", longest));
  const auto limit = static_cast<std::size_t>(longest);
  std::vector<std::string_view> documents;
  for (text = without_blank_lines(text); !text.empty(); text = without_blank_lines(text)) {
    std::string_view paragraph = first_paragraph(text);
    text.remove_prefix(paragraph.size());
    while (paragraph.size() > limit) {
      const std::size_t end = cut_position(paragraph, limit);
      const std::string_view piece = without_trailing_space(paragraph.substr(0, end));
      if (!piece.empty()) documents.push_back(piece);
      paragraph.remove_prefix(end);
      paragraph.remove_prefix(std::min(paragraph.find_first_not_of(kWhiteSpace), paragraph.size()));
    }
    if (!paragraph.empty()) documents.push_back(paragraph);
  }
  return documents;
}

}  // namespace fmhax::train
