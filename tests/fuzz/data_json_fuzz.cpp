// SPDX-License-Identifier: Apache-2.0
// JSON over any lines: the cutter and the reader on the input, next to JSON lines where each line is an object.
#include "data/formats/json_text.h"
#include "data/formats/json_values.h"
#include "data/formats/line_reader.h"
#include "data/source/json_look.h"
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

std::vector<std::string> read(const Path& path, data::Format format) {
  data::ReadRules rules;
  rules.max_record_bytes = 300;
  data::SourceFile source;
  source.path = source.real_path = path.string();
  source.format = format;
  std::vector<std::string> texts;
  const auto reader = data::open_source(source, rules);
  for (data::Record record; reader->next(record);) {
    require(record.problem == data::RecordProblem::kNone || !record.why.empty(), "a problem without a reason");
    texts.push_back(record.problem == data::RecordProblem::kNone ? std::string(record.text) : record.why);
  }
  return texts;
}

// Whether each line is a JSON object, so that both readers must agree.
bool has_object_lines(std::string_view input) {
  data::LineReader lines(data::open_text(input), 300);
  for (data::Line line; lines.next(line);)
    if (line.too_long || !data::is_json_object(line.text)) return false;
  return true;
}

}  // namespace

void run(std::string_view input) {
  data::look_at_json(input, true);
  data::look_at_json(input, false);
  const Path path = write_scratch("x.json", input);
  const std::vector<std::string> texts = read(path, data::Format::kJson);
  if (has_object_lines(input))
    require(texts == read(path, data::Format::kJsonl), "lines of objects give other records than as JSON lines");
}

std::vector<std::string> seeds() {
  return {"[{\"text\": \"a\"},\n {\"text\": \"b\\\"]\", \"more\": [{}, 1, true, \"x\"]}]\n",
          "[ ]",
          "[\"a\", 1, null]",
          "{\n  \"text\": \"a\"\n}\n{\n  \"text\": \"b\"\n}\n",
          "{\"text\": \"a\"}{\"text\": \"b\"}",
          "\xef\xbb\xbf{\"text\": \"one\"}\n{\"text\": \"two\"}\n",
          "[{\"text\": \"" + std::string(400, 'x') + "\"}, {}]"};
}

}  // namespace hearth::fuzz
