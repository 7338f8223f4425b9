// The text of a JSON object: the strings at given keys, joined; and what it weighs.
//
// A record is read once, from its first byte to its last, and checked as a whole (RFC 8259, and Python's NaN and
// Infinity); only the wanted strings are copied. Where a key stands twice, the last one counts, as in Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/formats/text_weights.h"

namespace hearth::data {

// How why() ends where ids stand instead of a text.
inline constexpr std::string_view kIdsForText = "is a list of numbers instead of a string";

struct JsonPart {
  std::string text;
  bool repaired = false;  // U+FFFD stands for an unpaired surrogate
};

class JsonText {
 public:
  // Keys may be dotted: "meta.text" is member "text" of member "meta" (or a member that is called "meta.text"). A list
  // on the way stands for all its elements in order.
  // With rules.weights_key there is one number, or truth value, for all texts.
  explicit JsonText(const ReadRules& rules);

  // Puts the text of the object `json` into `text`. What is wrong, if anything: kMalformed, kMissingKey, kWrongType, or
  // kNotUnicode, where `text` has U+FFFD for each invalid byte or unpaired surrogate. why() then says more.
  Problem read(std::string_view json, std::string& text);
  // The weights of that text's bytes; empty: each is 1.
  const WeightRuns& weights() const { return weights_; }
  const std::string& why() const { return why_; }

 private:
  Problem read_weight(float& weight);
  bool join_texts(std::string& text);

  const ReadRules& rules_;
  std::vector<std::string> keys_;             // of texts; then that of the weight, if there is one
  std::vector<std::vector<JsonPart>> parts_;  // of each key
  std::vector<JoinedPart> joined_;
  WeightRuns weights_;
  std::string valid_, why_;
};

// Whether `text` is one JSON object.
bool is_json_object(std::string_view text);

}  // namespace hearth::data
