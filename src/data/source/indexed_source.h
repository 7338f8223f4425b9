// Token files of Megatron and GPT-NeoX as a source: see indexed_file.h.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// `file` is NAME.bin. A record is a sequence, as GPT training in both programs has it; its position is its number. The
// ids are taken as they are, and weigh what file.label_file says. Ranges are of the .bin file.
std::unique_ptr<SourceReader> open_indexed_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
