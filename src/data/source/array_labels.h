// SPDX-License-Identifier: Apache-2.0
// The labels of .npy files: metadata.jsonl in their folder, one line per file,
//
//   {"file_name": "s1-0.npy", "subject_id": "s1", "session_id": "2021-05-01", "segment_id": "0", "source_dataset":
//   "ibl"}
//
// (the layout of Hugging Face's folders of images and sounds). Other keys are ignored.
#pragma once

#include <vector>

#include "data/source/source.h"

namespace hearth::data {

inline constexpr std::string_view kLabelsFile = "metadata.jsonl";

// Whether `path` is such a file: there are .npy files in its folder.
bool is_labels_file(const Path& path);

// Fills in the labels of the sources that are arrays. Folders without metadata.jsonl give no labels. Throws user_error
// with file and line for an invalid line, a file named twice, and a source without a line.
void read_labels(std::vector<SourceFile>& sources);

}  // namespace hearth::data
