// SPDX-License-Identifier: Apache-2.0
// JSON lines: the scanner on the whole input, and the reader on it as a file, whole and in ranges.
#include "data/formats/json_text.h"
#include "data/formats/utf8.h"
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

std::vector<std::string> read(const Path& path, int64_t size, int64_t step) {
  std::vector<std::string> texts;
  data::ReadRules rules;
  rules.max_record_bytes = 300;
  data::SourceFile source;
  source.path = source.real_path = path.string();
  source.format = data::Format::kJsonl;
  for (int64_t begin = 0; begin < size; begin += step) {
    const auto reader = data::open_source(source, rules, {begin, begin + step});
    for (data::Record record; reader->next(record);) texts.emplace_back(record.text);
  }
  return texts;
}

}  // namespace

void run(std::string_view input) {
  data::ReadRules rules;
  rules.text_keys = {"text", "meta.title", "files.text"};
  rules.loss_keys = {"text"};
  rules.weights_key = "meta.w";
  data::JsonText json(rules);
  std::string text;
  const data::RecordProblem problem = json.read(input, text);
  if (problem == data::RecordProblem::kNone || problem == data::RecordProblem::kNotUnicode)
    require(data::count_invalid_utf8(text) == 0 && json.weights().places() == std::ssize(text),
            "a text that is not UTF-8, or has other weights");
  if (problem != data::RecordProblem::kNone) require(!json.why().empty(), "a problem without a reason");

  const auto size = static_cast<int64_t>(input.size());
  const Path path = write_scratch("x.jsonl", input);
  require(read(path, size, 7) == read(path, size, size + 1), "ranges give other records than the whole file");
}

std::vector<std::string> seeds() {
  return {R"({"text": "a\n\u00e9\ud83d\ude00", "meta": {"title": "t"}, "files": [{"text": "x"}, {"text": "y"}]})",
          R"({"text": "a", "meta": {"title": "t", "w": 2.5e-1}, "files": [{"text": ""}]})",
          "{\"text\": \"one\"}\n{\"text\": \"two \\\\ \\\" \"}\r\n\n{\"text\": 5}\n",
          "{\"a\": [1, -2.5e+10, true, false, null, NaN, -Infinity, [], {}], \"text\": \"\xc3\xa9\"}",
          "\xef\xbb\xbf{\"text\": \"\\ud800 \xff\"}\n" + std::string(400, '[')};
}

}  // namespace hearth::fuzz
