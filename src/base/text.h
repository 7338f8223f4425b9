// SPDX-License-Identifier: Apache-2.0
// Plain text for a terminal: columns and wrapped paragraphs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

// The width of help texts.
inline constexpr size_t kTextColumns = 80;

struct TextRow {
  std::string left, right;
};

// Two columns, indented by two, the right one wrapped. A left side over 28 characters gets a line of its own.
std::string format_rows(const std::vector<TextRow>& rows);

std::vector<std::string> wrap(std::string_view text, size_t columns);
// The texts between separators. A separator at the end adds no empty text.
std::vector<std::string> split(std::string_view text, char separator);
std::vector<std::string> split_lines(std::string_view text);
std::string join(std::span<const std::string> words, std::string_view between = ", ");
// Joins the first `count` texts and says how many follow, as in "wq, wk and 8 more". If `between` is a line end, that
// number gets its own line.
std::string join_first(std::span<const std::string> words, size_t count, std::string_view between = ", ");
std::string sentence(std::string_view text);  // first letter upper case

// A text such as a path on one line: \n for a line end, \t for a tab, \x1b for another control character. A control
// character in a file name could move the cursor, or begin a line that looks like ours.
std::string printable(std::string_view text);
// A text as one word of a command that a user may copy: in quotes if it has characters that a plain path does not have.
std::string shell_word(std::string_view text);

}  // namespace hearth
