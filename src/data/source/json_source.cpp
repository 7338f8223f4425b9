#include "data/source/json_source.h"

#include "base/error.h"
#include "data/formats/json_values.h"
#include "data/source/json_record.h"

namespace hearth::data {
namespace {

std::string_view kind_of_value(char first) {
  if (first == '[') return "a list";
  if (first == '"') return "a string";
  if (first == 't' || first == 'f') return "a truth value";
  return first == 'n' ? "null" : "a number";
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
      record.fix = "correct the file or get it again, or leave out its rest with --on-error skip";
    }
    return true;
  }

  int64_t bytes_read() const override { return values_.bytes_read(); }

 private:
  void read(const JsonValue& value, Record& record) {
    if (value.too_long) return json_.set_too_long(record);
    if (value.text[0] == '{') {
      json_.read(value.text, record);
      if (record.problem == RecordProblem::kMissingKey && !record.fix.empty())
        record.fix =
            "name the key of the text (--text-key), read the file whole with --format text, or leave out such records "
            "with --on-error skip";
      return;
    }
    record.problem = RecordProblem::kMalformed;
    record.why = fmt::format("it is {} instead of a JSON object", kind_of_value(value.text[0]));
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
