// A split of a dataset in other programs' formats.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace hearth::data {

struct ExportResult {
  int64_t documents = 0, tokens = 0;
  int64_t replaced_documents = 0;  // whose text was no UTF-8 and has U+FFFD in the output
};

// PREFIX.bin and PREFIX.idx, as GPT-NeoX's own writer and Megatron's make them: a document is a sequence; u16 for
// vocabularies below 65,500 and i32 above.
ExportResult export_indexed(const Dataset& dataset, const Split& split, const Path& prefix);

// A line {"text": ...} a document, without special tokens. Throws user_error where the dataset knows no text.
ExportResult export_jsonl(const Dataset& dataset, const Split& split, const Path& path);

}  // namespace hearth::data
