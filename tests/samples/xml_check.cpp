#include "xml_check.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace fmhax::sample {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_'; }

/// Character data or an attribute's value: no '<', no control characters, '&' only in the five named entities.
bool is_clean(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '<' || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) return false;
    if (c != '&') continue;
    const std::string_view rest = text.substr(i);
    constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    const auto matches = [&](std::string_view entity) { return rest.substr(0, entity.size()) == entity; };
    if (std::none_of(std::begin(kEntities), std::end(kEntities), matches)) return false;
  }
  return true;
}

/// Attributes as `name="value"`, each name once, with white space before each.
bool are_attributes(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \n\t");
    if (begin == std::string_view::npos) return true;
    if (begin == 0) return false;
    text.remove_prefix(begin);
    const auto name_end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name) - text.begin());
    const std::string_view name = text.substr(0, name_end);
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return false;
    names.push_back(name);
    if (text.substr(name_end, 2) != "=\"") return false;
    const std::size_t quote = text.find('"', name_end + 2);
    if (quote == std::string_view::npos || !is_clean(text.substr(name_end + 2, quote - name_end - 2))) return false;
    text.remove_prefix(quote + 1);
  }
  return true;
}

}  // namespace

std::string xml_fault(std::string_view text) {
  std::vector<std::string> open;
  bool has_root = false;
  std::size_t position = 0;
  const auto fault = [&](const char* what) { return std::string(what) + " at byte " + std::to_string(position); };
  while (position < text.size()) {
    const std::size_t tag = std::min(text.find('<', position), text.size());
    const std::string_view data = text.substr(position, tag - position);
    if (!is_clean(data)) return fault("forbidden character");
    if (open.empty() && data.find_first_not_of(" \n\t") != std::string_view::npos)
      return fault("text outside of the root");
    position = tag;
    if (tag == text.size()) break;
    const std::size_t end = text.find('>', tag);
    if (end == std::string_view::npos) return fault("unfinished tag");
    std::string_view inside = text.substr(tag + 1, end - tag - 1);
    if (inside.substr(0, 1) == "/") {
      if (open.empty() || open.back() != inside.substr(1)) return fault("wrong closing tag");
      open.pop_back();
    } else {
      if (open.empty() && has_root) return fault("second root");
      has_root = true;
      const bool is_closed = !inside.empty() && inside.back() == '/';
      if (is_closed) inside.remove_suffix(1);
      const auto name_end = std::find_if_not(inside.begin(), inside.end(), is_name) - inside.begin();
      const std::string name(inside.substr(0, static_cast<std::size_t>(name_end)));
      if (name.empty() || !are_attributes(inside.substr(name.size()))) return fault("malformed tag");
      if (!is_closed) open.push_back(name);
    }
    position = end + 1;
  }
  if (!has_root) return fault("no root");
  return open.empty() ? std::string() : fault("unclosed element");
}

}  // namespace fmhax::sample
