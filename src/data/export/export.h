// A split of a dataset in other programs' formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct ExportResult {
  int64_t documents = 0, tokens = 0;
  int64_t replaced_documents = 0;  // whose text was no UTF-8 and has U+FFFD in the output
};

// Weights besides 0 and 1 cannot be written as labels: `what` does not hold them. And what does, or gives them up.
Error real_weights(const Dataset& dataset, const Split& split, std::string_view what, const char* fix);

// PREFIX.bin and PREFIX.idx, as GPT-NeoX's own writer and Megatron's make them: a document is a sequence; u16 for
// vocabularies below 65,500 and i32 above. With a label mask also PREFIX_label.bin and .idx, i32, as GPT-NeoX's
// train_label_data_paths take them. Throws user_error for other weights.
std::vector<Path> indexed_files(const Split& split, const Path& prefix);  // that will be written
ExportResult export_indexed(const Dataset& dataset, const Split& split, const Path& prefix);

// A line {"text": ...} a document, without special tokens. Throws user_error where the dataset knows no text.
ExportResult export_jsonl(const Dataset& dataset, const Split& split, const Path& path);

// A folder that `datasets` opens with load_from_disk: a row a document. Columns: "input_ids", its tokens with special
// ones (list of int32); "text", without them; "labels", the ids, and kIgnore where the loss does not count (list of
// int64); "weights" (list of float32). Files of about `file_bytes` at most, cut as save_to_disk cuts them.
// The folder is written beside itself and replaced as a whole. Throws user_error for text where the dataset knows none.
std::vector<std::string> default_saved_columns(const Split& split);
ExportResult export_saved(const Dataset& dataset, const Split& split, const std::vector<std::string>& column_names,
                          const Path& folder, int64_t file_bytes = 500'000'000);
std::vector<std::string> saved_column_names();  // all, for help

}  // namespace hearth::data
