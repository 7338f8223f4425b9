// JSON, an object a line; as it is or compressed.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// A record's text is what json_text.h finds at rules.text_keys. Positions are bytes of the uncompressed lines. Blank
// lines are no records. Uncompressed files may be read in ranges.
std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
