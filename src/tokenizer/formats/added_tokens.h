// Tokens that a text spells out as a whole ("<|endoftext|>", runs of spaces) and that are cut out before anything else.
//
// The rules are those of Hugging Face's added tokens: the leftmost match, the longest of those that begin there;
// matches do not overlap; a token that stands inside a word where it must not, or a special one where special text is
// plain, is passed over as a whole.
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

// A piece of the text: plain, or a token.
struct TextPart {
  size_t begin = 0, end = 0;  // bytes
  std::optional<uint32_t> id;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  size_t longest() const { return longest_; }  // bytes of the longest text

  // Replaces `parts` by those of `text`, in order and without gaps. Adds the special tokens found to `special_seen`.
  void split(std::string_view text, SpecialText special, std::vector<TextPart>& parts, int64_t& special_seen) const;

  // Where the first match at or after `from` begins, whatever its rules about words say; text.size(): no match.
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
  std::vector<bool> starts_;  // [65536]: whether two bytes may begin a token; one byte: with any that follows
  std::vector<bool> single_;  // [256]: tokens of one byte
  int first_byte_ = -1;       // of all tokens, if they share it
};

}  // namespace hearth::tokenizer
