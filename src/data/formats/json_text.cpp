// SPDX-License-Identifier: Apache-2.0
#include "data/formats/json_text.h"

#include <charconv>
#include <utility>

#include "base/error.h"
#include "data/formats/json_scanner.h"
#include "data/formats/utf8.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::data {

JsonText::JsonText(const ReadRules& rules) : rules_(rules), keys_(rules.text_keys) {
  if (!rules_.weights_key.empty()) keys_.push_back(rules_.weights_key);
}

RecordProblem JsonText::read_weight(float& weight) {
  const std::vector<JsonPart>& numbers = parts_.back();
  const std::string_view text = numbers.size() == 1 ? numbers[0].text : std::string_view();
  double value = text == "true" ? 1 : text == "false" ? 0 : -1;
  if (value < 0) std::from_chars(text.data(), text.data() + text.size(), value);  // out of range: stays negative
  if (is_weight(value)) {
    weight = static_cast<float>(value);
    return RecordProblem::kNone;
  }
  why_ = numbers.size() == 1
             ? fmt::format("\"{}\" is {}: weights are finite and not negative", rules_.weights_key, numbers[0].text)
             : fmt::format("\"{}\" is {} numbers instead of one", rules_.weights_key, numbers.size());
  return RecordProblem::kWrongType;
}

// Whether some text was repaired.
bool JsonText::join_texts(std::string& text) {
  bool repaired = false;
  joined_.clear();
  for (size_t key = 0; key < rules_.text_keys.size(); ++key) {
    for (JsonPart& part : parts_[key]) {
      if (!joined_.empty() || rules_.join_first) text += rules_.text_join;
      joined_.push_back({key, part.text.size()});
      if (text.empty())
        text = std::move(part.text);
      else
        text += part.text;
      repaired = repaired || part.repaired;
    }
  }
  return repaired;
}

RecordProblem JsonText::read(std::string_view json, std::string& text) {
  text.clear();
  weights_ = {};
  parts_.assign(keys_.size(), {});
  const bool invalid = count_invalid_utf8(json) > 0;
  if (invalid) {
    valid_.clear();
    tokenizer::append_valid_utf8(json, valid_);
    json = valid_;
  }
  JsonScanner scanner(json, keys_, rules_.text_keys.size(), parts_);
  try {
    scanner.scan();
  } catch (JsonFailure& failure) {
    why_ = std::move(failure.why);
    return failure.problem;
  }
  float weight = 1;
  if (!rules_.weights_key.empty()) {
    if (const RecordProblem problem = read_weight(weight); problem != RecordProblem::kNone) return problem;
  }
  const bool repaired = join_texts(text);
  weights_ = weights_of_texts(rules_, joined_, weight);
  if (!invalid && !repaired) return RecordProblem::kNone;
  why_ = invalid ? "it has bytes that are not UTF-8" : "it has an unpaired surrogate (\\ud800 to \\udfff)";
  return RecordProblem::kNotUnicode;
}

bool is_json_object(std::string_view text, std::string* why) {
  ReadRules no_keys;
  no_keys.text_keys.clear();
  std::string ignored;
  JsonText json(no_keys);
  const bool is_object = json.read(text, ignored) == RecordProblem::kNone;
  if (!is_object && why != nullptr) *why = json.why();
  return is_object;
}

bool may_begin_json_object(std::string_view text) {
  const std::vector<std::string> no_keys;
  std::vector<std::vector<JsonPart>> no_parts;
  JsonScanner scanner(text, no_keys, 0, no_parts);
  try {
    scanner.scan();
  } catch (const JsonFailure&) {
    return scanner.failed_at_end();
  }
  return true;
}

std::vector<std::string> keys_of_json(std::string_view text) {
  const std::vector<std::string> no_keys;
  std::vector<std::vector<JsonPart>> no_parts;
  JsonScanner scanner(text, no_keys, 0, no_parts);
  scanner.keep_members();
  try {
    scanner.scan();
  } catch (const JsonFailure&) {  // the members before it
  }
  std::vector<std::string> keys;
  for (const JsonMember& member : scanner.members()) keys.push_back(member.name);
  return keys;
}

}  // namespace hearth::data
