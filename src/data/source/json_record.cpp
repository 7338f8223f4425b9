#include "data/source/json_record.h"

#include "data/formats/stream_buffer.h"

namespace hearth::data {

void JsonRecord::read(std::string_view object, Record& record) {
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

void JsonRecord::set_too_long(Record& record) const {
  record.problem = RecordProblem::kTooLong;
  record.why = fmt::format("it has more than {} bytes (--max-record-bytes)", rules_.max_record_bytes);
}

std::string JsonRecord::ids_fix() const {
  const std::string table = Path(path_).filename().replace_extension(".parquet").string();
  return fmt::format(
      "token ids are read from Parquet, with --vocab-size: python3 -c \"import pyarrow.json as j, pyarrow.parquet as "
      "p; p.write_table(j.read_json('{}'), '{}')\"",
      path_, table);
}

void set_unreadable(const Error& error, Record& record) {
  record.problem = RecordProblem::kUnreadable;
  record.why = error.why().empty() ? error.message() : fmt::format("{}: {}", error.message(), error.why());
}

}  // namespace hearth::data
