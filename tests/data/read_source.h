// SPDX-License-Identifier: Apache-2.0
// The records of a file, as text.
#pragma once

#include <string>
#include <vector>

#include "data/source/source.h"

namespace hearth::data {

struct ReadRecord {
  std::string text;
  int64_t position = 0;
  RecordProblem problem = RecordProblem::kNone;
  std::string why, location;
};

inline SourceFile found_file(const Path& path, const ReadRules& rules = {}, const KindRules& kinds = {}) {
  const Recognised recognised = recognise(path, rules, kinds);
  SourceFile file;
  file.path = file.real_path = path.string();
  file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  file.format = recognised.format;
  file.compression = recognised.compression;
  file.any_bytes = kinds.as_text;
  return file;
}

inline std::vector<ReadRecord> read_source(const SourceFile& file, const ReadRules& rules = {}) {
  const auto reader = open_source(file, rules);
  std::vector<ReadRecord> records;
  for (Record record; reader->next(record);)
    records.push_back({std::string(record.text), record.position, record.problem, record.why, record.location});
  return records;
}

// "json gzip", from the file's name and content.
inline std::string kind_of(const Path& path, const ReadRules& rules = {}, const KindRules& kinds = {}) {
  const SourceFile file = found_file(path, rules, kinds);
  return std::string(format_name(file.format)) + " " + std::string(compression_name(file.compression));
}

inline std::vector<std::string> texts_of(const std::vector<ReadRecord>& records) {
  std::vector<std::string> texts;
  for (const ReadRecord& record : records) texts.push_back(record.text);
  return texts;
}

}  // namespace hearth::data
