// SPDX-License-Identifier: Apache-2.0
// The labels of .npy files: metadata.jsonl in their folder, one line per file,
//
//   {"file_name": "s1-0.npy", "subject_id": "s1", "session_id": "2021-05-01", "segment_id": "0", "source_dataset":
//   "ibl"}
//
// (the layout of Hugging Face's folders of images and sounds). Other keys are ignored.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "recordings/spike_array.h"

namespace hearth::recordings {

inline constexpr std::string_view kLabelsFile = "metadata.jsonl";

// Whether `path` is such a file: there are .npy files in its folder.
bool is_labels_file(const Path& path);

// Labels of arrays by their paths. Reads each folder's metadata.jsonl once.
class LabelsFiles {
 public:
  // The labels of the array in the file at `path`. Null if its folder has no metadata.jsonl. Throws user_error with
  // file and line for an invalid line, a file named twice, and an array without a line.
  std::shared_ptr<const ArrayLabels> labels_of(const Path& path);

 private:
  using FolderLabels = std::map<std::string, std::shared_ptr<const ArrayLabels>>;  // by a file's name
  static FolderLabels parse(const Path& path);

  std::map<Path, std::optional<FolderLabels>> folders_;
};

}  // namespace hearth::recordings
