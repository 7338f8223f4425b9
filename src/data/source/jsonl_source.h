// JSON, one object per line, plain or compressed.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// A record's text is that of the object at rules.text_keys (json_text.h). Positions are bytes of the uncompressed
// lines. Blank lines are not records. Uncompressed files may be read in ranges.
std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
