// SPDX-License-Identifier: Apache-2.0
// Tokens that a text spells out as a whole ("<|endoftext|>", runs of spaces). They are cut out of the text first.
//
// The rules are Hugging Face's for added tokens: the leftmost match wins, and the longest one that begins there.
// Matches do not overlap. A match is skipped as a whole in two cases: its token must not be inside a word, but is; or
// it is a special token, and special text is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/formats/huggingface_file.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

// A part of the text: plain, or a token.
struct TextPart {
  size_t begin = 0, end = 0;  // bytes
  std::optional<uint32_t> id;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  explicit AddedTokens(const std::vector<SpecialToken>& tokens);  // without rules; those without a text are left out

  bool empty() const { return tokens_.empty(); }
  size_t longest() const { return longest_; }  // bytes of the longest text

  // Replaces `parts` by the parts of `text`, in order and without gaps. Adds the number of special tokens found to
  // `special_seen`.
  void split(std::string_view text, SpecialText special, std::vector<TextPart>& parts, int64_t& special_seen) const;

  // The start of the first match at or after `from`, without the rules about words; text.size(): no match.
  size_t find(std::string_view text, size_t from) const;

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  bool next(std::string_view text, size_t from, Match& match) const;
  size_t next_start(std::string_view text, size_t from) const;

  std::vector<AddedToken> tokens_;
  size_t longest_ = 0;
  // A trie over bytes: (node << 8 | byte) -> node; node 0 is the root. ends_[node]: index in tokens_, or -1.
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> ends_;
  std::vector<bool> starts_;  // [65536]: whether two bytes may begin a token
  std::vector<bool> single_;  // [256]: the tokens of one byte
  int first_byte_ = -1;       // of all tokens, if it is the same; else -1
};

}  // namespace hearth::tokenizer
