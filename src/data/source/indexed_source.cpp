// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "data/formats/indexed_file.h"
#include "data/source/label_file.h"
#include "data/source/readers.h"

namespace hearth::data {
namespace {

class IndexedReader final : public SourceReader {
 public:
  IndexedReader(const SourceFile& file, const ReadRules& rules, SourceRange range)
      : file_(file.real_path, rules.dialect), vocab_size_(rules.vocab_size), begin_(range.begin), end_(range.end) {
    if (!file.label_file.empty()) labels_.emplace(file.label_file, file, file_.num_sequences());
    if (begin_ == 0) file_.check_documents();
    next_ = first_from(begin_);
  }

  bool next(Record& record) override {
    // An empty sequence at the file's end starts in no range.
    if (next_ == file_.num_sequences() || (file_.offset(next_) >= end_)) return false;
    record = {};
    record.is_ids = true;
    record.position = next_;
    record.location = fmt::format("sequence {}", next_);
    try {
      file_.read(next_, ids_);
      record.ids = ids_;
      if (record.check_ids(vocab_size_) && labels_ && !labels_->read(next_, ids_, record.weights, record.why))
        record.problem = RecordProblem::kWrongType;
      ++next_;
    } catch (const Error& e) {
      if (e.code() == ExitCode::kHardware) throw;
      record.problem = e.code() == ExitCode::kDamaged ? RecordProblem::kUnreadable : RecordProblem::kWrongType;
      record.why = e.why().empty() ? e.message() : e.why();
      next_ = e.code() == ExitCode::kDamaged ? file_.num_sequences() : next_ + 1;
    }
    return true;
  }

  int64_t bytes_read() const override { return std::max<int64_t>(0, std::min(file_.offset(next_), end_) - begin_); }

 private:
  // The first sequence that starts at `byte` or later.
  int64_t first_from(int64_t byte) const {
    int64_t low = 0, high = file_.num_sequences();
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (file_.offset(middle) >= byte)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  IndexedFile file_;
  int64_t vocab_size_, begin_, end_;
  int64_t next_ = 0;
  std::vector<uint32_t> ids_;
  std::optional<LabelFile> labels_;
};

}  // namespace

std::unique_ptr<SourceReader> open_indexed_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  return std::make_unique<IndexedReader>(file, rules, range);
}

}  // namespace hearth::data
