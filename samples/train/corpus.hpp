/// @file English text and the documents that it is cut into.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fmhax::train {

/// Less text than this is refused: a model would only learn it by heart.
inline constexpr std::int64_t kSmallestCorpus = 32 * 1024;

/// The files under /usr/share/common-licenses, which Debian's package base-files puts on every machine, in the order
/// of their names and without those that are links to another. Throws std::runtime_error when there are none.
std::vector<std::string> licence_texts();

/// The files' bytes one after another, a blank line between two. Throws std::runtime_error naming the file that can't
/// be read, or saying how much text there is when that is less than kSmallestCorpus.
std::string read_text(const std::vector<std::string>& files);

/// Cuts text into documents of 1 to `longest` bytes, views into `text` in their order. A document is a paragraph (blank
/// lines lie between two); a paragraph that is too long is cut after a sentence, else after a word, else anywhere. Only
/// white space at the cuts belongs to no document.
std::vector<std::string_view> cut_documents(std::string_view text, std::int64_t longest);

}  // namespace fmhax::train
