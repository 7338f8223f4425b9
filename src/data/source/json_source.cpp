// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "data/formats/json_text.h"
#include "data/formats/json_values.h"
#include "data/formats/line_reader.h"
#include "data/formats/stream_buffer.h"
#include "data/source/readers.h"

namespace hearth::data {
namespace {

// The problem of a record that begins with the mark. The one that begins a file is no part of it.
constexpr std::string_view kMarkInside = "it begins with a byte order mark (EF BB BF), as where two files were joined";

// A JSON object as a record: what JSON lines and other files of JSON have in common.
class JsonRecord {
 public:
  JsonRecord(const SourceFile& file, const ReadRules& rules) : rules_(rules), json_(rules_), path_(file.path) {}
  JsonRecord(const JsonRecord&) = delete;
  JsonRecord& operator=(const JsonRecord&) = delete;

  // Fills in the record's text, weights and problem. Its views are valid until the next call.
  void read(std::string_view object, Record& record) {
    record.problem = json_.read(object, text_);
    record.text = text_;
    record.weights = json_.weights();
    record.is_utf8 = true;
    if (record.problem != RecordProblem::kNone) record.why = json_.why();
    if (object.starts_with(kByteOrderMark)) record.why = kMarkInside;
    if (record.why.ends_with(kIdsForText)) record.fix = ids_fix();
    if (record.problem == RecordProblem::kMissingKey && rules_.weights_key.empty())
      record.fix = "name the key of the text (--text-key), or leave out such records with --on-error skip";
  }
  int64_t max_bytes() const { return rules_.max_record_bytes; }

 private:
  std::string ids_fix() const {
    const std::string table = Path(path_).filename().replace_extension(".parquet").string();
    return fmt::format(
        "token ids are read from Parquet, with --vocab-size: python3 -c \"import pyarrow.json as j, pyarrow.parquet as "
        "p; p.write_table(j.read_json('{}'), '{}')\"",
        path_, table);
  }

  ReadRules rules_;
  JsonText json_;
  std::string path_;
  std::string text_;
};

class JsonlReader final : public SourceReader {
 public:
  // A range starts one byte early: everything before the first line end belongs to the range before.
  JsonlReader(const SourceFile& file, const ReadRules& rules, SourceRange range)
      : json_(file, rules),
        end_(range.end),
        start_(range.begin == 0 ? 0 : range.begin - 1),
        passes_over_first_(range.begin > 0),
        lines_(open_stream(file.real_path, file.compression, start_), rules.max_record_bytes, start_) {}

  bool next(Record& record) override {
    if (unreadable_) return false;
    record = {};
    try {
      Line line;
      if (std::exchange(passes_over_first_, false) && !next_line(line)) return false;
      do {
        if (!next_line(line) || line.position >= end_) return false;
        if (line.position == 0 && line.text.starts_with(kByteOrderMark)) line.text.remove_prefix(kByteOrderMark.size());
      } while (!line.too_long && line.text.find_first_not_of(" \t\r") == std::string_view::npos);
      read(line, record);
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      unreadable_ = true;
      record.position = next_position_;
      record.fail_as_unreadable(e);
    }
    // Lines are counted from the file's start: a range does not know how many lines come before it.
    record.location = whole_ ? fmt::format("line {}", number_ + (unreadable_ ? 1 : 0))
                             : fmt::format("the line at byte {}", record.position);
    return true;
  }

  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  bool next_line(Line& line) {
    if (!lines_.next(line)) return false;
    ++number_;
    next_position_ = line.position + static_cast<int64_t>(line.text.size()) + 1;
    return true;
  }

  void read(const Line& line, Record& record) {
    record.position = line.position;
    if (line.too_long)
      record.fail_as_too_long(json_.max_bytes());
    else
      json_.read(line.text, record);
  }

  JsonRecord json_;
  int64_t end_, start_;
  bool passes_over_first_;
  bool whole_ = !passes_over_first_;
  LineReader lines_;
  int64_t number_ = 0, next_position_ = 0;
  bool unreadable_ = false;
};

std::string fix_of_fault(std::string_view part) {
  return fmt::format(
      "correct the file or get it again, leave out {} with --on-error skip, or read a text that begins like JSON with "
      "--format text",
      part);
}

std::string why_no_object(std::string_view value) {
  if (value.starts_with(kByteOrderMark)) return std::string(kMarkInside);
  const bool is_json = is_json_object(fmt::format("{{\"value\": {}}}", value));
  std::string_view kind = "a number";
  if (value[0] == '[') kind = "a list";
  if (value[0] == '"') kind = "a string";
  if (value[0] == 't' || value[0] == 'f') kind = "a truth value";
  if (value[0] == 'n') kind = "null";
  return is_json ? fmt::format("it is {} instead of a JSON object", kind) : "it is not JSON: a value is expected";
}

class JsonReader final : public SourceReader {
 public:
  JsonReader(const SourceFile& file, const ReadRules& rules)
      : json_(file, rules), values_(open_stream(file.real_path, file.compression), rules.max_record_bytes) {}

  bool next(Record& record) override {
    if (unreadable_) return false;
    record = {};
    JsonValue value;
    try {
      if (!values_.next(value)) return false;
      record.position = value.position;
      record.location = fmt::format("line {}", value.line);
      read(value, record);
      end_ = value.position + static_cast<int64_t>(value.text.size());
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      unreadable_ = true;
      record.position = end_;
      record.location = fmt::format("line {}", values_.line());
      record.fail_as_unreadable(e);
      record.fix = fix_of_fault("its rest");
    }
    return true;
  }

  int64_t bytes_read() const override { return values_.bytes_read(); }

 private:
  void read(const JsonValue& value, Record& record) {
    if (value.too_long) return record.fail_as_too_long(json_.max_bytes());
    if (value.text[0] == '{') {
      json_.read(value.text, record);
      if (record.problem == RecordProblem::kMalformed) record.fix = fix_of_fault("such records");
      if (record.problem == RecordProblem::kMissingKey && !record.fix.empty())
        record.fix =
            "name the key of the text (--text-key), read the file whole with --format text, or leave out such records "
            "with --on-error skip";
      return;
    }
    record.fail(RecordProblem::kMalformed, why_no_object(value.text), fix_of_fault("such values"));
  }

  JsonRecord json_;
  JsonValues values_;
  int64_t end_ = 0;  // of the last value
  bool unreadable_ = false;
};

}  // namespace

std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  return std::make_unique<JsonlReader>(file, rules, range);
}

std::unique_ptr<SourceReader> open_json_source(const SourceFile& file, const ReadRules& rules, SourceRange /*whole*/) {
  return std::make_unique<JsonReader>(file, rules);
}

}  // namespace hearth::data
