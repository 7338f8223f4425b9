// Token files of Megatron and GPT-NeoX as a source: see indexed_file.h.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// `file` is NAME.bin. A record is a sequence, as in GPT training of both programs; its position is its number. The ids
// are taken unchanged; their weights come from file.label_file. Ranges are of the .bin file.
std::unique_ptr<SourceReader> open_indexed_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
