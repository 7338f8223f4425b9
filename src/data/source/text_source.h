// Plain text: any file.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// One record per file. With rules.document_bytes > 0 a document ends at the first line end at or after so many bytes.
// Positions are bytes. An empty file has no record. Bytes are kept unchanged, but a byte order mark (UTF-8) is left
// out. A compressed file is held in memory, and may have at most rules.max_record_bytes.
std::unique_ptr<SourceReader> open_text_source(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
