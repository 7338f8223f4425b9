// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes as printable characters, for the keys of a byte-level vocabulary. The bytes of printable
// Latin-1 characters are those characters. The other 68 are U+0100, U+0101, ... in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

// The bytes that `text` spells; nullopt if one of its characters spells no byte.
std::optional<std::string> bytes_of_alphabet(std::string_view text);
// The spelling of `bytes`.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace hearth::tokenizer
