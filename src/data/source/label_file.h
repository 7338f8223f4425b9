// SPDX-License-Identifier: Apache-2.0
// The file of labels of a token file, as in GPT-NeoX (train_label_data_paths): NAME_label.bin with an .idx, with the
// same sequences. A label is the token at the same position, or kIgnore if its loss does not count. Source:
// EleutherAI/gpt-neox, megatron/neox_arguments/neox_args.py ("not shifted") and megatron/training.py.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/formats/indexed_file.h"
#include "data/source/source.h"

namespace hearth::data {

// Gives the source at each of `paths` the label file with the same index in `labels`. Throws user_error for a wrong
// number of labels, a path that is no single token file, or an invalid label file.
void attach_label_files(const std::vector<Path>& paths, const std::vector<Path>& labels,
                        std::vector<SourceFile>& sources);

// A hash over the .bin and the .idx file (32 hexadecimal digits).
std::string label_file_hash(const std::string& path);

class LabelFile {
 public:
  // Throws user_error unless it has as many sequences as the token file.
  LabelFile(const std::string& path, const SourceFile& tokens, int64_t num_sequences);

  // Appends the weights of the ids of sequence i. False, and `why`, for a label that is neither its id nor kIgnore, or
  // for a wrong number of labels.
  bool read(int64_t i, std::span<const uint32_t> ids, WeightRuns& weights, std::string& why);

 private:
  IndexedFile file_;
  std::vector<int32_t> labels_;
};

}  // namespace hearth::data
