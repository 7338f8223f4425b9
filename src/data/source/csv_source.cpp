// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "base/quantity.h"
#include "base/text.h"
#include "data/formats/csv_rows.h"
#include "data/formats/text_weights.h"
#include "data/formats/utf8.h"
#include "data/source/readers.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::data {
namespace {

constexpr std::array kSeparators = {',', '\t', ';', '|'};
constexpr size_t kNamedColumns = 12;

using Columns = std::vector<std::string>;

// The first rows, at most `count`. Without the last one if the file goes on where `text` ends.
std::vector<Columns> first_rows(std::string_view text, char separator, size_t count) {
  std::vector<Columns> all;
  CsvRows rows(open_text(text), separator, static_cast<int64_t>(text.size()) + 1);
  CsvRow row;
  while (all.size() <= count && rows.next(row) && row.problem.empty())
    all.emplace_back(row.fields.begin(), row.fields.end());
  if (all.size() > count || (text.size() == kSniffBytes && all.size() > 1)) all.pop_back();
  return all;
}

bool has_all(const Columns& columns, const std::vector<std::string>& keys) {
  return std::ranges::all_of(keys,
                             [&](const std::string& key) { return std::ranges::find(columns, key) != columns.end(); });
}

}  // namespace

std::optional<char> csv_separator(std::string_view text, const Path& path, const std::vector<std::string>& keys,
                                  bool by_content) {
  const std::string ending = Path(plain_name(path)).extension().string();
  if (ending == ".tsv" || ending == ".tab") return '\t';
  const bool by_name = ending == ".csv";
  if (!by_name && !by_content) return {};
  char best = ',';
  size_t most = 0;
  for (const char separator : kSeparators) {
    constexpr size_t kRows = 5;
    const std::vector<Columns> rows = first_rows(text, separator, by_name ? 1 : kRows);
    if (rows.empty()) continue;
    const auto is_regular = [&](const Columns& row) { return row.size() == rows[0].size(); };
    const bool fits = has_all(rows[0], keys);
    if (by_name && fits) return separator;
    if (!by_name && fits && rows.size() > 1 && rows[0].size() > 1 && std::ranges::all_of(rows, is_regular))
      return separator;
    if (rows[0].size() <= most) continue;
    most = rows[0].size();
    best = separator;
  }
  return by_name ? std::optional(best) : std::nullopt;
}

namespace {

class CsvReader final : public SourceReader {
 public:
  CsvReader(const SourceFile& file, const ReadRules& rules, char separator)
      : rules_(rules), rows_(open_stream(file.real_path, file.compression), separator, rules.max_record_bytes) {
    try {
      read_header(file.path);
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      damage_.fail_as_unreadable(e);
    }
  }

  bool next(Record& record) override {
    if (damage_.problem != RecordProblem::kNone) {
      record = std::exchange(damage_, {});
      record.location = "the header";
      unreadable_ = true;
      return true;
    }
    if (unreadable_) return false;
    record = {};
    try {
      if (!rows_.next(row_)) return false;
      record.position = row_.position;
      record.location = fmt::format("line {}", row_.line);
      read_row(record);
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      unreadable_ = true;
      record.position = row_.position;
      record.location = fmt::format("after line {}", row_.line);
      record.fail_as_unreadable(e);
    }
    return true;
  }

  int64_t bytes_read() const override { return rows_.bytes_read(); }

 private:
  void read_header(const std::string& path) {
    if (!rows_.next(row_)) return;
    if (!row_.problem.empty() || row_.too_long)
      throw user_error(
          fmt::format("{}: the first row names no columns", path),
          row_.too_long ? fmt::format("it has more than {} bytes", rules_.max_record_bytes) : std::string(row_.problem),
          "correct it, or read the file whole with --format text");
    names_.assign(row_.fields.begin(), row_.fields.end());
    const Columns& names = names_;
    for (const std::string& key : rules_.text_keys) {
      const auto count = std::ranges::count(names, key);
      const std::string there = fmt::format("its columns are {}", join_first(names, kNamedColumns));
      if (count == 0)
        throw user_error(fmt::format("{} has no column \"{}\"", path, key), there,
                         "name the column of the text with --text-key, or read the file whole with --format text");
      if (count > 1)
        throw user_error(fmt::format("{} has {} columns \"{}\"", path, count, key), there,
                         "give each column a name of its own");
      columns_.push_back(static_cast<size_t>(std::ranges::find(names, key) - names.begin()));
    }
  }

  void read_row(Record& record) {
    if (row_.problem == kOpenQuote)
      return record.fail(RecordProblem::kUnreadable, std::string(row_.problem),
                         "close the quote, or leave out the rest of the file with --on-error skip");
    if (row_.too_long) return record.fail_as_too_long(rules_.max_record_bytes);
    if (!row_.problem.empty()) return record.fail(RecordProblem::kMalformed, std::string(row_.problem));
    if (row_.fields.size() != names_.size())
      return record.fail(
          RecordProblem::kMalformed,
          fmt::format("it has {} and the first row {}", counted(std::ssize(row_.fields), "field"), names_.size()));
    if (repeats_header())
      return record.fail(RecordProblem::kMalformed,
                         "it repeats the names of the columns, as where files were put one after another",
                         "remove the row, or leave out such rows with --on-error skip");
    text_.clear();
    parts_.clear();
    bool is_valid = true;
    for (size_t key = 0; key < columns_.size(); ++key) {
      if (key > 0 || rules_.join_first) text_ += rules_.text_join;
      const std::string_view field = row_.fields[columns_[key]];
      const size_t before = text_.size();
      if (count_invalid_utf8(field) == 0)
        text_ += field;
      else
        is_valid = (tokenizer::append_valid_utf8(field, text_), false);
      parts_.push_back({key, text_.size() - before});
    }
    record.text = text_;
    record.is_utf8 = true;
    record.weights = weights_of_texts(rules_, parts_, 1);
    if (!is_valid) record.fail(RecordProblem::kNotUnicode, "it has bytes that are not UTF-8");
  }

  // A file's byte order mark may still be before the first name.
  bool repeats_header() const {
    std::string_view first = row_.fields[0];
    if (first.starts_with(kByteOrderMark)) first.remove_prefix(kByteOrderMark.size());
    return first == names_[0] && std::equal(names_.begin() + 1, names_.end(), row_.fields.begin() + 1);
  }

  ReadRules rules_;
  CsvRows rows_;
  CsvRow row_;
  Record damage_;  // found in the header, not reported yet
  Columns names_;
  std::vector<size_t> columns_;  // of each key
  std::vector<JoinedPart> parts_;
  std::string text_;
  bool unreadable_ = false;
};

}  // namespace

std::unique_ptr<SourceReader> open_csv_source(const SourceFile& file, const ReadRules& rules, SourceRange /*whole*/) {
  const std::string start = first_bytes(file.real_path, file.compression, kSniffBytes);
  const auto separator = csv_separator(start, file.path, rules.text_keys, /*by_content=*/true);
  return std::make_unique<CsvReader>(file, rules, separator.value_or(','));
}

}  // namespace hearth::data
