#include "data/source/jsonl_source.h"

#include <utility>

#include "base/error.h"
#include "data/formats/json_text.h"
#include "data/formats/line_reader.h"

namespace hearth::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class JsonlReader final : public SourceReader {
 public:
  // A range starts one byte early: everything before the first line end belongs to the range before.
  JsonlReader(const SourceFile& file, const ReadRules& rules, SourceRange range)
      : rules_(rules),
        json_(rules),
        path_(file.path),
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
      record.problem = RecordProblem::kUnreadable;
      record.position = next_position_;
      record.why = e.why().empty() ? e.message() : fmt::format("{}: {}", e.message(), e.why());
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
    if (line.too_long) {
      record.problem = RecordProblem::kTooLong;
      record.why = fmt::format("it has more than {} bytes (--max-record-bytes)", rules_.max_record_bytes);
      return;
    }
    record.problem = json_.read(line.text, text_);
    record.text = text_;
    record.weights = json_.weights();
    record.is_utf8 = true;
    if (record.problem != RecordProblem::kNone) record.why = json_.why();
    if (record.why.ends_with(kIdsForText)) record.fix = ids_fix();
    if (record.problem == RecordProblem::kMissingKey && rules_.weights_key.empty())
      record.fix = "name the key of the text (--text-key), or leave out such records with --on-error skip";
  }

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
  int64_t end_, start_;
  bool passes_over_first_;
  bool whole_ = !passes_over_first_;
  LineReader lines_;
  std::string text_;
  int64_t number_ = 0, next_position_ = 0;
  bool unreadable_ = false;
};

}  // namespace

std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  return std::make_unique<JsonlReader>(file, rules, range);
}

}  // namespace hearth::data
