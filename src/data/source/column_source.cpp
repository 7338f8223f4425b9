// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "data/formats/arrow_library.h"
#include "data/formats/text_weights.h"
#include "data/formats/utf8.h"
#include "data/source/readers.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::data {
namespace {

constexpr int64_t kBaseMemory = 4 << 20;

// Limit of the decoder: no file may take all memory.
int64_t most_memory(const ReadRules& rules) {
  constexpr int64_t kMostRecord = INT64_MAX / 8;
  return kBaseMemory + 4 * std::min(rules.max_record_bytes, kMostRecord);
}

// Text gets less: a small file may expand a thousandfold, like compressed text. An array of zeros may take a few bytes
// on disk at any size.
int64_t text_memory(const SourceFile& file, const ReadRules& rules) {
  constexpr int64_t kExpansion = 1000;
  const int64_t most = most_memory(rules);
  return file.size_bytes > (most - kBaseMemory) / kExpansion ? most : kBaseMemory + kExpansion * file.size_bytes;
}

class ColumnReader final : public SourceReader {
 public:
  ColumnReader(const SourceFile& file, const ReadRules& rules, SourceRange range)
      : rules_(rules), mapped_(file.real_path) {
    ColumnFailure failure;
    rows_ = arrow_library().open_rows({.format = file.format,
                                       .file = mapped_.bytes(),
                                       .rules = &rules_,
                                       .memory_bytes = text_memory(file, rules),
                                       .array_memory_bytes = most_memory(rules),
                                       .max_record_bytes = rules.max_record_bytes,
                                       .range = range},
                                      failure);
    if (rows_ != nullptr) return;
    if (!failure.damaged) throw user_error(fmt::format("{} {}", file.path, failure.what), failure.why, failure.fix);
    // Every range of the file meets the damage. The first one reports it.
    if (range.begin == 0) damage_ = failure.what;
  }

  bool next(Record& record) override {
    record = {};
    if (rows_ == nullptr) {
      if (damage_.empty()) return false;
      record.fail(RecordProblem::kUnreadable, std::exchange(damage_, {}));
      record.location = "the file";
      return true;
    }
    if (!rows_->next(row_)) return false;
    record.position = row_.number;
    record.location = fmt::format("row {}", row_.number);
    record.is_ids = rows_->kind() == ColumnKind::kIds;
    record.problem = row_.problem;
    record.why = std::move(row_.why);
    if (rows_->kind() == ColumnKind::kArrays) return set_array(record);
    if (record.problem != RecordProblem::kNone) return true;
    if (!record.is_ids) return join_texts(record);
    record.ids = row_.ids;
    for (const float weight : row_.weights) record.weights.append(1, weight);
    record.check_ids(rules_.vocab_size);
    return true;
  }

  int64_t bytes_read() const override { return rows_ == nullptr ? 0 : rows_->bytes_read(); }

 private:
  // A row with a problem gives only its labels: rows of other datasets are left out before the problem is reported.
  bool set_array(Record& record) {
    if (record.problem == RecordProblem::kUnreadable) return true;
    auto array = std::make_shared<recordings::SpikeArray>();
    array->labels = std::move(row_.labels);
    if (record.problem == RecordProblem::kNone) {
      array->shape = row_.shape;
      array->counts = recordings::time_major(row_.counts, row_.shape);
      for (size_t i = 0; i < recordings::kLabelNames.size(); ++i)
        check_label(recordings::kLabelNames[i], array->labels[i], record);
    }
    record.array = std::move(array);
    return true;
  }

  static void check_label(std::string_view name, std::string& label, Record& record) {
    if (count_invalid_utf8(label) == 0) return;
    std::string valid;
    tokenizer::append_valid_utf8(label, valid);
    label = std::move(valid);
    record.fail(RecordProblem::kNotUnicode, fmt::format("its {} has bytes that are not UTF-8", name));
  }

  bool join_texts(Record& record) {
    record.text = row_.texts.size() == 1 && !rules_.join_first ? row_.texts.front() : joined();
    record.is_utf8 = true;
    weigh_texts(record);
    if (record.text.size() > static_cast<size_t>(rules_.max_record_bytes)) {
      record.fail_as_too_long(rules_.max_record_bytes);
    } else if (count_invalid_utf8(record.text) > 0) {
      record.weights = weights_of_valid(record);
      valid_.clear();
      tokenizer::append_valid_utf8(record.text, valid_);
      record.text = valid_;
      record.fail(RecordProblem::kNotUnicode, "it has bytes that are not UTF-8");
    }
    return true;
  }

  void weigh_texts(Record& record) {
    parts_.clear();
    for (size_t key = 0, i = 0; key < row_.text_ends.size(); ++key)
      for (; i < row_.text_ends[key]; ++i) parts_.push_back({key, row_.texts[i].size()});
    record.weights = weights_of_texts(rules_, parts_, row_.weights.empty() ? 1 : row_.weights.front());
  }

  // The weights of the text with U+FFFD in place of bytes that are not UTF-8.
  static WeightRuns weights_of_valid(const Record& record) {
    WeightRuns weights;
    std::string valid;
    int64_t begin = 0;
    for (const WeightRuns::Run& run : record.weights.runs()) {
      tokenizer::append_valid_utf8(record.text.substr(static_cast<size_t>(begin), static_cast<size_t>(run.end - begin)),
                                   valid);
      weights.append(std::ssize(valid) - weights.places(), run.weight);
      begin = run.end;
    }
    return weights;
  }

  // Stops once the text is too long.
  std::string_view joined() {
    text_.clear();
    for (size_t i = 0; i < row_.texts.size() && text_.size() <= static_cast<size_t>(rules_.max_record_bytes); ++i) {
      if (i > 0 || rules_.join_first) text_ += rules_.text_join;
      text_ += row_.texts[i];
    }
    return text_;
  }

  ReadRules rules_;
  MappedFile mapped_;
  std::unique_ptr<ColumnRows> rows_;
  std::string damage_;  // found on opening, not reported yet
  ColumnRow row_;
  std::vector<JoinedPart> parts_;
  std::string text_, valid_;
};

}  // namespace

std::unique_ptr<SourceReader> open_column_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  return std::make_unique<ColumnReader>(file, rules, range);
}

}  // namespace hearth::data
