// SPDX-License-Identifier: Apache-2.0
// The places where Meta's own code for Llama-3 cuts a text before tokenizing. It cuts after each 400,000 characters.
// Within such a part it cuts after each 25,000 consecutive characters that are all white space or all not. Pieces do
// not cross a cut, so ids of such texts differ from Hugging Face's, which does not cut.
//
// Source: llama_models/llama3/tokenizer.py, Tokenizer.encode. White space is Python's str.isspace(): White_Space and
// U+001C to U+001F. In invalid UTF-8, which that code refuses, each byte that is not 10xxxxxx counts as a character.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::tokenizer {

inline constexpr size_t kMetaPartCharacters = 400'000, kMetaRunCharacters = 25'000;

class MetaCuts {
 public:
  explicit MetaCuts(std::string_view text) : text_(text) {}

  // The end of the part that begins at `begin`, which must be the end of the previous part. The last end is
  // text.size().
  size_t next(size_t begin);

 private:
  std::string_view text_;
  size_t part_end_ = 0;   // of the 400,000 characters around `begin`
  size_t run_begin_ = 0;  // the start of a run; all runs before it are short
};

// The largest multiple of 400,000 characters that ends at or before `limit`, as a place; 0 if no such place exists.
size_t last_meta_part_end(std::string_view text, size_t limit);

}  // namespace hearth::tokenizer
