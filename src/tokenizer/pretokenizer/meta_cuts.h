// Where Meta's own code for Llama-3 cuts a text before it tokenizes: after each 400,000 characters, and, within such a
// part, after each 25,000 characters in a row that are all white space or all not. Pieces do not cross a cut, so the
// ids of such texts differ from Hugging Face's, which does not cut.
//
// Source: llama_models/llama3/tokenizer.py, Tokenizer.encode. White space is Python's str.isspace(): White_Space and
// U+001C to U+001F. Text that is not UTF-8, which that code does not take: a character is counted at each byte that is
// not 10xxxxxx.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::tokenizer {

inline constexpr size_t kMetaPartCharacters = 400'000, kMetaRunCharacters = 25'000;

class MetaCuts {
 public:
  explicit MetaCuts(std::string_view text) : text_(text) {}

  // The end of the part that begins at `begin`, where the one before it ended; text.size() at last.
  size_t next(size_t begin);

 private:
  std::string_view text_;
  size_t part_end_ = 0;   // of the 400,000 characters around `begin`
  size_t run_begin_ = 0;  // where a run begins; those before it are short
};

// The largest place up to `limit` behind a multiple of 400,000 characters, 0 where no such place exists.
size_t last_meta_part_end(std::string_view text, size_t limit);

}  // namespace hearth::tokenizer
