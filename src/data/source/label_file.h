// The file of labels beside a token file, as GPT-NeoX has it (train_label_data_paths): NAME_label.bin with an .idx, of
// the same sequences. A label is the token at its own place, or kIgnore where the loss of predicting it does not count.
// Source: EleutherAI/gpt-neox, megatron/neox_arguments/neox_args.py ("not shifted") and megatron/training.py.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/formats/indexed_file.h"
#include "data/source/source.h"

namespace hearth::data {

// Gives the source that each of `paths` leads to the label file of the same place in `labels`. Throws user_error where
// there are not as many, a path is no single token file, or a label file cannot be one.
void attach_label_files(const std::vector<Path>& paths, const std::vector<Path>& labels,
                        std::vector<SourceFile>& sources);

// Over both its files (32 hexadecimal digits).
std::string label_file_hash(const std::string& path);

class LabelFile {
 public:
  // Throws user_error where it has not as many sequences as the token file.
  LabelFile(const std::string& path, const SourceFile& tokens, int64_t num_sequences);

  // Adds what the ids of sequence i weigh. False, and `why`, where a label is neither its id nor kIgnore, or there are
  // not as many.
  bool read(int64_t i, std::span<const uint32_t> ids, WeightRuns& weights, std::string& why);

 private:
  IndexedFile file_;
  std::vector<int32_t> labels_;
};

}  // namespace hearth::data
