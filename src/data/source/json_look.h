// SPDX-License-Identifier: Apache-2.0
// A look at the beginning of a file that may be JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::data {

struct JsonLook {
  // The first values that are objects, at most two. An object that the bytes cut off counts if it is good so far.
  int objects = 0;
  bool is_empty_array = false;
  std::string others;             // instead of objects: "a list of strings", "strings"; empty: not JSON
  std::vector<std::string> keys;  // of the first object
  bool is_cut = false;            // the bytes end in one of these objects, and more follows
  bool lacks_end = false;         // the file ends in an object, or in an array with an object
  bool has_fault = false;         // not JSON, but the first value is a good object
  bool may_be_cut = false;        // not JSON so far, but the bytes end in a value without objects, and more follows
  std::string why_not;            // why it is not JSON
};

// `text` is a file's beginning, without a byte order mark. Its end is the file's if `is_whole`.
JsonLook look_at_json(std::string_view text, bool is_whole);

struct JsonRows {
  std::string text_key;
  int64_t num_texts = 0;  // at the key, at least two
  int64_t num_rows = 0;   // the length of the list that the key begins with; 0: it begins with another value
};

// What the object holds if one of the keys gives several texts.
std::optional<JsonRows> rows_of_json(std::string_view object, const std::vector<std::string>& text_keys);

}  // namespace hearth::data
