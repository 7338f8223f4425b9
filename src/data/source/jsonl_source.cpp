#include "data/source/jsonl_source.h"

#include <utility>

#include "base/error.h"
#include "data/formats/line_reader.h"
#include "data/source/json_record.h"

namespace hearth::data {
namespace {

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
      set_unreadable(e, record);
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
      json_.set_too_long(record);
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

}  // namespace

std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  return std::make_unique<JsonlReader>(file, rules, range);
}

}  // namespace hearth::data
