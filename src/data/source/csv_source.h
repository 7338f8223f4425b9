// Tables of text with a header: comma-separated values, or values between tabs, semicolons or bars.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/source.h"

namespace hearth::data {

// The separator of a table that begins with `text`; nothing for another text. By name (.csv, .tsv, .tab), whatever the
// columns are. By content, if the first line has several columns, all of `keys` among them, and the next lines have as
// many. If several separators fit, the one that finds `keys` counts, then the one with the most columns.
std::optional<char> csv_separator(std::string_view text, const Path& path, const std::vector<std::string>& keys,
                                  bool by_content);

// A record is a row: its text is in the columns of rules.text_keys, joined as for JSON. The first row names the
// columns. Positions are bytes of the uncompressed text. A row with another number of fields than the header is
// kMalformed. An open quote makes the rest of the file kUnreadable. Bytes that are not UTF-8 are kNotUnicode. An empty
// field is an empty text.
//
// Throws user_error for a file without such a column, or with two of its name.
std::unique_ptr<SourceReader> open_csv_source(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
