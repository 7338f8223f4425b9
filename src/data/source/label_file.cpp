// SPDX-License-Identifier: Apache-2.0
#include "data/source/label_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {

void attach_label_files(const std::vector<Path>& paths, const std::vector<Path>& labels,
                        std::vector<SourceFile>& sources) {
  if (paths.size() != labels.size())
    throw user_error(fmt::format("there are {} --labels for {} paths", labels.size(), paths.size()),
                     "each token file needs its own label file", "give --labels as often as PATH, in the same order");
  for (size_t i = 0; i < paths.size(); ++i) {
    const Path tokens = token_file_of(paths[i]), file = token_file_of(labels[i]);
    const std::string real = std::filesystem::canonical(tokens).string();
    const auto source = std::ranges::find(sources, real, &SourceFile::real_path);
    if (source == sources.end() || source->format != Format::kIndexed)
      throw user_error(fmt::format("--labels {} has no token file", labels[i].string()),
                       fmt::format("{} is not a token file", paths[i].string()),
                       "give NAME.bin itself as PATH; for tables and JSON lines there are --labels-key and --loss-key");
    if (!path_exists(file) || !index_of(file))
      throw user_error(fmt::format("--labels {} is not a token file of Megatron or GPT-NeoX", labels[i].string()),
                       "a label file has the layout of a token file, and there is no .bin with an .idx file",
                       "give NAME_label.bin with NAME_label.idx in the same folder");
    const std::string real_labels = std::filesystem::canonical(file).string();
    if (!source->label_file.empty() && source->label_file != real_labels)
      throw user_error(fmt::format("{} is named twice, with different --labels", paths[i].string()), "",
                       "name it once");
    source->label_file = real_labels;
  }
}

std::string label_file_hash(const std::string& path) {
  return xxh3_128_hex(MappedFile(path).bytes()) + xxh3_128_hex(MappedFile(*index_of(path)).bytes());
}

LabelFile::LabelFile(const std::string& path, const SourceFile& tokens, int64_t num_sequences) : file_(path) {
  if (file_.num_sequences() != num_sequences)
    throw user_error(fmt::format("{} does not belong to {}", path, tokens.path),
                     fmt::format("it has the labels of {} sequences, the token file has {} sequences",
                                 file_.num_sequences(), num_sequences),
                     "give the label file that was written with these tokens");
}

bool LabelFile::read(int64_t i, std::span<const uint32_t> ids, WeightRuns& weights, std::string& why) {
  try {
    file_.read_labels(i, labels_);
  } catch (const Error& e) {
    if (e.code() != ExitCode::kUser) throw;
    why = "in its labels: " + e.message();
    return false;
  }
  if (ids.size() != labels_.size()) {
    why = fmt::format("it has {} labels for {} tokens", labels_.size(), ids.size());
    return false;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool counts = labels_[i] != kIgnore;
    if (counts && (labels_[i] < 0 || static_cast<uint32_t>(labels_[i]) != ids[i])) {
      why = fmt::format("label {} is {}, neither the token's id {} nor {}", i, labels_[i], ids[i], kIgnore);
      return false;
    }
    weights.append(1, counts ? 1 : 0);
  }
  return true;
}

}  // namespace hearth::data
