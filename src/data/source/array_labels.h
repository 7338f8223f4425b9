// What .npy files are recordings of: metadata.jsonl in their folder, a line a file,
//
//   {"file_name": "s1-0.npy", "subject_id": "s1", "session_id": "2021-05-01", "segment_id": "0", "source_dataset":
//   "ibl"}
//
// (the layout that Hugging Face's folders of images and sounds have). Other keys are passed over.
#pragma once

#include <vector>

#include "data/source/source.h"

namespace hearth::data {

inline constexpr std::string_view kLabelsFile = "metadata.jsonl";

// Whether `path` is such a file: .npy files lie beside it.
bool is_labels_file(const Path& path);

// Fills in the labels of the sources that are arrays. Folders without metadata.jsonl give none. Throws user_error,
// naming file and line, for a line that is no such object, a file named twice, and a source that is not named.
void read_labels(std::vector<SourceFile>& sources);

}  // namespace hearth::data
