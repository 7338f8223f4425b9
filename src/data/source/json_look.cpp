#include "data/source/json_look.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/formats/json_text.h"
#include "data/formats/json_values.h"

namespace hearth::data {
namespace {

// Whether a value that is no object is JSON.
bool is_json_value(std::string_view value) { return is_json_object("{\"value\": " + std::string(value) + "}"); }

JsonLook not_json(std::string why) {
  JsonLook look;
  look.why_not = std::move(why);
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
        if (std::string why; !is_json_object(value.text, &why)) return not_json(why);
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
      JsonLook fault = not_json(error.message());
      fault.has_fault = look.objects > 0;
      fault.lacks_end = is_whole && values.at_end() && (look.objects > 0 || ends_in_object);
      return fault;
    }
    if (look.objects == 0) look.keys = keys_of_json(text.substr(begin));
    ++look.objects;
  }
  return look;
}

std::optional<JsonColumns> columns_of_json(std::string_view object, const std::vector<std::string>& text_keys) {
  const std::vector<JsonMember> members = members_of_json(object);
  const auto is_text = [&](const JsonMember& member) {
    return member.has_strings && std::find(text_keys.begin(), text_keys.end(), member.name) != text_keys.end();
  };
  const auto text = std::find_if(members.begin(), members.end(), is_text);
  if (text == members.end() || text->num_elements < 2) return {};
  const bool are_equal = std::all_of(members.begin(), members.end(), [&](const JsonMember& member) {
    return member.num_elements == text->num_elements;
  });
  return are_equal ? std::optional(JsonColumns{text->name, text->num_elements}) : std::nullopt;
}

}  // namespace hearth::data
