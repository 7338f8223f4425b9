// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), as tokenizer files have it.
#pragma once

#include <string>
#include <string_view>

namespace hearth::tokenizer {

// Replaces `bytes` by what `text` spells. The text must have its padding. False for any other text, and for an empty
// one.
bool decode_base64(std::string_view text, std::string& bytes);

}  // namespace hearth::tokenizer
