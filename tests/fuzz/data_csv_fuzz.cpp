// SPDX-License-Identifier: Apache-2.0
// CSV: rows of the input, and the reader on it as a file. The fields, written as a table and read again, must be the
// same.
#include "data/formats/csv_rows.h"
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(std::string_view text, char separator) {
  Rows all;
  data::CsvRows rows(data::open_text(text), separator, 300);
  int64_t position = -1;
  for (data::CsvRow row; rows.next(row);) {
    require(row.position > position, "a row does not begin after the one before it");
    position = row.position;
    if (!row.too_long && row.problem.empty()) all.emplace_back(row.fields.begin(), row.fields.end());
  }
  return all;
}

std::string written(const Rows& rows, char separator) {
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? "\"" : std::string(1, separator) + "\"";
      for (const char c : row[i]) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
    text += '\n';
  }
  return text;
}

}  // namespace

void run(std::string_view input) {
  for (const char separator : {',', '\t'}) {
    const Rows rows = rows_of(input, separator);
    const std::string text = written(rows, separator);
    bool is_short = true;  // quotes make a row longer
    for (const auto& row : rows) is_short = is_short && written({row}, separator).size() <= 300;
    if (is_short) require(rows_of(text, separator) == rows, "a table that is written and read again has other fields");
  }
  data::SourceFile source;
  source.path = source.real_path = write_scratch("x.csv", input).string();
  source.format = data::Format::kCsv;
  accepted([&] {
    const auto reader = data::open_source(source, {});
    for (data::Record record; reader->next(record);)
      require(record.problem == data::RecordProblem::kNone || !record.why.empty(), "a problem without a reason");
  });
}

std::vector<std::string> seeds() {
  return {"id,text\n1,\"a, \"\"b\"\"\nc\"\r\n2,\n\n3,d", "text\tid\na\t1\n", "\xef\xbb\xbftext;id\n\"\";1\n\"x\"y;2\n",
          "text,id\r\"open", "text\n" + std::string(400, 'x') + "\ny\n"};
}

}  // namespace hearth::fuzz
