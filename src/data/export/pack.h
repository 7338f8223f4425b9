// SPDX-License-Identifier: Apache-2.0
// Writes a split as rows of equal length, for trainers that expect packed rows, in a folder that load_from_disk opens.
// Columns: "input_ids" (lists of int32), "attention_mask" (int8) and "labels" (int64). The labels are those of Hugging
// Face's models: the ids themselves, which the model shifts, and -100 for a token that does not count. Source of names,
// types and the rule for tails: Arcee's Trainium recipe, trainium_pack_dataset.py, which is `datasets`' map over
// batches of 1000 documents.
#pragma once

#include <cstdint>

#include "data/shard/dataset.h"

namespace hearth::data {

struct PackRules {
  int64_t length = 0;  // of each row, in tokens; at least 1
  // 0: the split is one run of tokens; the tokens after its last whole row become a padded row. N: documents are taken
  // N at a time; the tokens after each group's last whole row are dropped.
  int64_t drop_tails = 0;
};

struct PackResult {
  int64_t rows = 0;
  int64_t dropped = 0;     // tokens in no row
  int64_t padding = 0;     // positions of the last row without a token: attention_mask 0, label -100
  int32_t padding_id = 0;  // their id: EOS, or 0 if the tokenizer has no EOS
};

// Files of about `file_bytes` at most; memory does not grow with the split. The folder is replaced as a whole. Throws
// user_error if there would be no row, or for weights that labels cannot hold.
PackResult pack_split(const Dataset& dataset, const Split& split, const PackRules& rules, const Path& folder,
                      int64_t file_bytes = 500'000'000);

}  // namespace hearth::data
