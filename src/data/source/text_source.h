// Plain text: any file.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// One record a file; with rules.document_bytes > 0 the file is cut after the first line end at or beyond so many bytes,
// again and again. Positions are bytes. An empty file has no record. Bytes are kept, whatever they are. A compressed
// file is held in memory, and must not have more than rules.max_record_bytes.
std::unique_ptr<SourceReader> open_text_source(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
