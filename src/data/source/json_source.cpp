#include "data/source/json_source.h"

#include "base/error.h"
#include "data/formats/json_values.h"
#include "data/formats/stream_buffer.h"
#include "data/source/json_record.h"

namespace hearth::data {
namespace {

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
      set_unreadable(e, record);
      record.fix = fix_of_fault("its rest");
    }
    return true;
  }

  int64_t bytes_read() const override { return values_.bytes_read(); }

 private:
  void read(const JsonValue& value, Record& record) {
    if (value.too_long) return json_.set_too_long(record);
    if (value.text[0] == '{') {
      json_.read(value.text, record);
      if (record.problem == RecordProblem::kMalformed) record.fix = fix_of_fault("such records");
      if (record.problem == RecordProblem::kMissingKey && !record.fix.empty())
        record.fix =
            "name the key of the text (--text-key), read the file whole with --format text, or leave out such records "
            "with --on-error skip";
      return;
    }
    record.problem = RecordProblem::kMalformed;
    record.why = why_no_object(value.text);
    record.fix = fix_of_fault("such values");
  }

  JsonRecord json_;
  JsonValues values_;
  int64_t end_ = 0;  // of the last value
  bool unreadable_ = false;
};

}  // namespace

std::unique_ptr<SourceReader> open_json_source(const SourceFile& file, const ReadRules& rules) {
  return std::make_unique<JsonReader>(file, rules);
}

}  // namespace hearth::data
