// SPDX-License-Identifier: Apache-2.0
// JSON as a sequence of leaves: for files of other programs that may be large or hostile. No tree is built, so that
// memory is bounded by the text. Duplicate keys are errors: programs disagree on which one counts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace hearth::formats {

struct JsonLeaf {
  enum class Kind { kText, kInteger, kOther, kObject, kArray };
  Kind kind;
  std::span<const std::string> path;  // keys from the root; an element of a list has the path of the list
  std::string_view text;              // kText
  int64_t integer = 0;                // kInteger; negative numbers and those beyond int64 are kOther
};

// Calls `visit` for every value in the order of the text; objects and lists come before their content. Throws damaged()
// naming `origin` for a syntax error, a duplicate key, and more than `max_depth` levels.
void walk_json(std::string_view text, const std::string& origin, size_t max_depth,
               const std::function<void(const JsonLeaf&)>& visit);

}  // namespace hearth::formats
