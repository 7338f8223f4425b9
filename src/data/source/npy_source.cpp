// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "data/source/readers.h"
#include "formats/npy.h"

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
    const std::string_view bytes(reinterpret_cast<const char*>(mapped_.bytes().data()), mapped_.bytes().size());
    const formats::NpyHeader header = formats::parse_npy_header(bytes, "it");
    if (header.descr != "|u1" && header.descr != "u1")
      return record.fail(RecordProblem::kWrongType,
                         fmt::format("its elements are \"{}\", not uint8 (\"|u1\")", header.descr));
    if (header.shape.size() != 2)
      return record.fail(
          RecordProblem::kWrongType,
          fmt::format("it has {} dimensions, not the two of neurons and time bins", header.shape.size()));
    const ArrayShape shape{header.shape[0], header.shape[1]};
    const auto size = static_cast<int64_t>(bytes.size() - header.data_offset);
    if (shape.bins > 0 && shape.neurons > std::numeric_limits<int64_t>::max() / shape.bins)
      return record.fail(RecordProblem::kMalformed, fmt::format("its shape is ({}, {})", shape.neurons, shape.bins));
    if (shape.cells() > size)
      return record.fail(RecordProblem::kUnreadable,
                         fmt::format("it is cut short: {} bytes of {}", size, shape.cells()));
    if (shape.cells() < size)
      return record.fail(RecordProblem::kMalformed, fmt::format("{} bytes follow its end", size - shape.cells()));
    if (shape.cells() > max_bytes_) return record.fail_as_too_long(max_bytes_);
    auto array = std::make_shared<SpikeArray>();
    array->shape = shape;
    const std::span counts(reinterpret_cast<const uint8_t*>(bytes.data()) + header.data_offset,
                           bytes.size() - header.data_offset);
    if (header.fortran_order)  // [neurons, bins] by columns is [bins, neurons] by rows
      array->counts.assign(counts.begin(), counts.end());
    else
      array->counts = time_major(counts, shape);
    if (file_.labels != nullptr) array->labels = *file_.labels;
    record.array = std::move(array);
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
