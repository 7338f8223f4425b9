// SPDX-License-Identifier: Apache-2.0
#include "data/source/json_look.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/formats/json_scanner.h"
#include "data/formats/json_text.h"
#include "data/formats/json_values.h"

namespace hearth::data {
namespace {

// Whether a value that is no object is JSON.
bool is_json_value(std::string_view value) { return is_json_object("{\"value\": " + std::string(value) + "}"); }

JsonLook not_json(std::string why, bool has_fault = false) {
  JsonLook look;
  look.why_not = std::move(why);
  look.has_fault = has_fault;
  return look;
}

std::string plural_of(char first) {
  if (first == '[') return "lists";
  return first == '"' ? "strings" : "numbers or truth values";
}

}  // namespace

JsonLook look_at_json(std::string_view text, bool is_whole) {
  JsonLook look;
  JsonValues values(open_text(text), static_cast<int64_t>(text.size()) + 1);
  size_t end = 0;  // of the last value
  try {
    JsonValue value;
    while (look.objects < 2 && values.next(value)) {
      end = static_cast<size_t>(value.position) + value.text.size();
      if (value.text[0] == '{' && look.others.empty()) {
        if (look.objects == 0) look.keys = keys_of_json(value.text);
        if (std::string why; !is_json_object(value.text, &why)) return not_json(why, look.objects > 0);
        ++look.objects;
      } else if (look.objects == 0) {
        // A text may begin like JSON: "[1] Smith, J.: The sea". So all values are read.
        const bool may_be_cut = !is_whole && values.at_end();
        if (!may_be_cut && !is_json_value(value.text)) return not_json("a value is expected");
        if (look.others.empty()) look.others = (values.in_array() ? "a list of " : "") + plural_of(value.text[0]);
      } else {
        return look;  // after an object the reader reports it
      }
    }
    look.is_empty_array = look.objects == 0 && look.others.empty() && end == 0 && !text.empty();
  } catch (const Error& error) {
    if (!look.others.empty()) return is_whole || !values.at_end() ? not_json(error.message()) : look;
    const size_t begin = text.find('{', end);
    const bool ends_in_object = begin != std::string_view::npos && may_begin_json_object(text.substr(begin));
    look.is_cut = !is_whole && ends_in_object;
    if (!look.is_cut) {
      JsonLook fault = not_json(error.message(), look.objects > 0);
      fault.may_be_cut = !is_whole && values.at_end();
      fault.lacks_end = is_whole && values.at_end() && (look.objects > 0 || ends_in_object);
      return fault;
    }
    if (look.objects == 0) look.keys = keys_of_json(text.substr(begin));
    ++look.objects;
  }
  return look;
}

std::optional<JsonRows> rows_of_json(std::string_view object, const std::vector<std::string>& text_keys) {
  std::vector<std::vector<JsonPart>> parts(text_keys.size());
  JsonScanner scanner(object, text_keys, text_keys.size(), parts);
  scanner.keep_members();
  try {
    scanner.scan();
  } catch (const JsonFailure& failure) {  // a null among the texts, or no other key: the rows are there all the same
    if (failure.problem == RecordProblem::kMalformed) return {};
  }
  const auto several = std::ranges::find_if(parts, [](const auto& texts) { return texts.size() > 1; });
  if (several == parts.end()) return {};
  JsonRows rows{text_keys[static_cast<size_t>(several - parts.begin())], std::ssize(*several)};
  for (const JsonMember& member : scanner.members())
    if ((rows.text_key + ".").starts_with(member.name + ".")) rows.num_rows = std::max(member.num_elements, int64_t{0});
  return rows;
}

}  // namespace hearth::data
