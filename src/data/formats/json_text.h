// SPDX-License-Identifier: Apache-2.0
// The text of a JSON object: the strings at given keys, joined, and their weight.
//
// A record is read once, from its first byte to its last, and checked as a whole (RFC 8259, and Python's NaN and
// Infinity). Only the wanted strings are copied. The last of equal keys counts, as in Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/text_weights.h"

namespace hearth::data {

// The end of why() for a key with ids instead of a text.
inline constexpr std::string_view kIdsForText = "is a list of numbers instead of a string";

struct JsonPart {
  std::string text;
  bool repaired = false;  // U+FFFD replaces an unpaired surrogate
};

class JsonText {
 public:
  // A key may have dots: "meta.text" is member "text" of member "meta", or a member with the name "meta.text". A list
  // on the path means all its elements, in order. rules.weights_key names one number or truth value for all texts.
  explicit JsonText(const ReadRules& rules);

  // Puts the text of the object `json` into `text`. Its problems are kMalformed, kMissingKey, kWrongType and
  // kNotUnicode; why() explains them. With kNotUnicode `text` has U+FFFD for each invalid byte or unpaired surrogate.
  RecordProblem read(std::string_view json, std::string& text);
  // The weights of that text's bytes; empty: each is 1.
  const WeightRuns& weights() const { return weights_; }
  const std::string& why() const { return why_; }

 private:
  RecordProblem read_weight(float& weight);
  bool join_texts(std::string& text);

  const ReadRules& rules_;
  std::vector<std::string> keys_;             // of texts, then of the weight if there is one
  std::vector<std::vector<JsonPart>> parts_;  // of each key
  std::vector<JoinedPart> joined_;
  WeightRuns weights_;
  std::string valid_, why_;
};

// Whether `text` is one JSON object. If not, `why` says why unless it is null.
bool is_json_object(std::string_view text, std::string* why = nullptr);
// Whether a longer text that begins with `text` may be one.
bool may_begin_json_object(std::string_view text);

// The names of an object's own members up to its end, or to the first mistake. At most a hundred.
std::vector<std::string> keys_of_json(std::string_view text);

}  // namespace hearth::data
