// Texts from outside: the bytes that are not UTF-8, and a spelling for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::data {

// Number of bytes outside well-formed sequences (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF).
int64_t count_invalid_utf8(std::string_view text);

// A text such as a path on one line: \n for a line end, \t for a tab, \x1b for another control character. Such a
// character would move the cursor, or begin a line that looks like ours.
std::string printable(std::string_view text);
// A text as one word of a command that a user may copy: in quotes if it has other characters than a plain path.
std::string shell_word(std::string_view text);

}  // namespace hearth::data
