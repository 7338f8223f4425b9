// GPT-2's way to write bytes as printable characters, in which the keys of a byte-level vocabulary are spelled:
// the bytes of printable Latin-1 characters are those characters, the other 68 are U+0100, U+0101, ... in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

// The bytes that `text` stands for; nothing if one of its characters stands for no byte.
std::optional<std::string> bytes_of_alphabet(std::string_view text);
// The spelling of `bytes`.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace hearth::tokenizer
