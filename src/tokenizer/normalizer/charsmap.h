// SPDX-License-Identifier: Apache-2.0
// SentencePiece's precompiled map of characters: "Precompiled" in a tokenizer.json. The map is a trie of texts and a
// list of their replacements. `tokenizers` looks up each grapheme cluster of fewer than 6 bytes, then single
// characters.
//
// Format: the trie's size in bytes (u32), its units (u32, a double array of the library darts-clone), then the
// replacements, each ended by a byte 0. All numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

class Charsmap {
 public:
  // Throws user_error if the bytes are not a map of this format. `place` names them in the error.
  Charsmap(std::string_view bytes, const std::string& place);

  // Appends `text` with its replacements, which equal those of `tokenizers`. Invalid bytes stay.
  void append(std::string_view text, std::string& out) const;

 private:
  // The replacement of the shortest prefix of `text` that the map has.
  std::optional<std::string_view> find(std::string_view text) const;
  void check(const std::string& place) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> is_kept_{};  // ASCII characters that the map does not change
};

}  // namespace hearth::tokenizer
