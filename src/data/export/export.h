// SPDX-License-Identifier: Apache-2.0
// Writes a split of a dataset in other programs' formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct ExportResult {
  int64_t documents = 0, tokens = 0;
  int64_t replaced_documents = 0;  // documents that were not UTF-8 and have U+FFFD in the output
};

// The error for weights other than 0 and 1, which `what` cannot hold. `fix` names a format that holds them or drops
// them.
Error real_weights(const Dataset& dataset, const Split& split, std::string_view what, const char* fix);

// PREFIX.bin and PREFIX.idx, as GPT-NeoX's own writer and Megatron's make them. A document is a sequence, of u16 for
// vocabularies below 65,500 and of i32 above. With a label mask also PREFIX_label.bin and .idx, of i32, for GPT-NeoX's
// train_label_data_paths. Throws user_error for other weights.
std::vector<Path> indexed_files(const Split& split, const Path& prefix);  // that export_indexed will write
ExportResult export_indexed(const Dataset& dataset, const Split& split, const Path& prefix);

// One line {"text": ...} per document, without special tokens. Throws user_error if the dataset has no text.
ExportResult export_jsonl(const Dataset& dataset, const Split& split, const Path& path);

// A folder that `datasets` opens with load_from_disk, one row per document. Columns: "input_ids", all tokens (list of
// int32); "text", without special tokens; "labels", the ids, or kIgnore where the loss does not count (list of int64);
// "weights" (list of float32). Files of about `file_bytes` at most, split as save_to_disk splits them. The folder is
// replaced as a whole. Throws user_error for "text" if the dataset has no text.
std::vector<std::string> default_saved_columns(const Split& split);
ExportResult export_saved(const Dataset& dataset, const Split& split, const std::vector<std::string>& column_names,
                          const Path& folder, int64_t file_bytes = 500'000'000);
std::vector<std::string> saved_column_names();  // all, for help

}  // namespace hearth::data
