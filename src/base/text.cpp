// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace hearth {
namespace {

bool moves_cursor(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Bash takes these as they are, anywhere in a word.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
}

std::string escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  return fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
}

}  // namespace

std::string format_rows(const std::vector<TextRow>& rows) {
  constexpr size_t kWidestLeft = 28;
  size_t width = 0;
  for (const TextRow& row : rows) {
    if (row.left.size() <= kWidestLeft) width = std::max(width, row.left.size());
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::vector<std::string> lines = wrap(row.right, kTextColumns - width - 4);
    std::string left = row.left;
    if (left.size() > width) {
      text += fmt::format("  {}\n", left);
      left.clear();
    }
    for (const std::string& line : lines) {
      text += fmt::format("  {:{}}  {}\n", left, width, line);
      left.clear();
    }
  }
  return text;
}

std::vector<std::string> wrap(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  while (text.size() > columns) {
    size_t end = text.rfind(' ', columns);
    if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> split_lines(std::string_view text) { return split(text, '\n'); }

std::string join(std::span<const std::string> words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

std::string join_first(std::span<const std::string> words, size_t count, std::string_view between) {
  const size_t shown = std::min(words.size(), count);
  std::string text = join(words.first(shown), between);
  if (shown < words.size())
    text += fmt::format("{}and {} more", between.starts_with('\n') ? between : " ", words.size() - shown);
  return text;
}

std::string sentence(std::string_view text) {
  std::string result(text);
  if (!result.empty()) result[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(result[0])));
  return result;
}

std::string printable(std::string_view text) {
  std::string line;
  for (const char c : text) line += moves_cursor(c) ? escaped(c) : std::string(1, c);
  return line;
}

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  // $'...' is the shell's own spelling of control characters.
  const bool has_controls = std::any_of(text.begin(), text.end(), moves_cursor);
  std::string word = has_controls ? "$'" : "'";
  for (const char c : text) {
    if (!has_controls)
      word += c == '\'' ? "'\\''" : std::string(1, c);
    else
      word += moves_cursor(c) ? escaped(c) : c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return word + "'";
}

}  // namespace hearth
