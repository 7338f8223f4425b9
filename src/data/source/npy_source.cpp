// SPDX-License-Identifier: Apache-2.0
#include "data/source/readers.h"
#include "recordings/array_file.h"

namespace hearth::data {
namespace {

class NpyReader final : public SourceReader {
 public:
  NpyReader(const SourceFile& file, const ReadRules& rules)
      : file_(file), max_bytes_(rules.max_record_bytes), mapped_(file.real_path) {}

  bool next(Record& record) override {
    if (done_) return false;
    done_ = true;
    record = {};
    record.location = "the array";
    try {
      read(record);
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged && e.code() != ExitCode::kUser) throw;
      record.fail_as_unreadable(e);
      if (e.code() == ExitCode::kUser) record.problem = RecordProblem::kMalformed;
    }
    return true;
  }

  int64_t bytes_read() const override { return done_ ? static_cast<int64_t>(mapped_.bytes().size()) : 0; }

 private:
  void read(Record& record) const {
    using recordings::ArrayFault;
    recordings::ReadArray found = recordings::read_array(mapped_.bytes(), max_bytes_);
    switch (found.fault) {
      case ArrayFault::kWrongType:
        return record.fail(RecordProblem::kWrongType, std::move(found.why));
      case ArrayFault::kMalformed:
        return record.fail(RecordProblem::kMalformed, std::move(found.why));
      case ArrayFault::kUnreadable:
        return record.fail(RecordProblem::kUnreadable, std::move(found.why));
      case ArrayFault::kTooLong:
        return record.fail_as_too_long(max_bytes_);
      case ArrayFault::kNone:
        break;
    }
    if (file_.labels != nullptr) found.array.labels = *file_.labels;
    record.array = std::make_shared<recordings::SpikeArray>(std::move(found.array));
  }

  const SourceFile& file_;
  int64_t max_bytes_;
  MappedFile mapped_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<SourceReader> open_npy_source(const SourceFile& file, const ReadRules& rules, SourceRange /*whole*/) {
  return std::make_unique<NpyReader>(file, rules);
}

}  // namespace hearth::data
