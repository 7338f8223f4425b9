// JSON that is not one object per line: the objects of an array, or objects one after another, each over any lines.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// A record's text is that of the object at rules.text_keys, as in JSON lines. Positions are bytes of the uncompressed
// text. Another value in an object's place is kMalformed. Where the text between two values is not JSON, the rest of
// the file is kUnreadable.
std::unique_ptr<SourceReader> open_json_source(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
