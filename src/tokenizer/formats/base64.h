// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), as tokenizer files have it.
#pragma once

#include <string>
#include <string_view>

namespace hearth::tokenizer {

// Decodes `text` into `bytes`, whose old content is lost. The text must have its padding. False for text that is not
// base64 or is empty.
bool decode_base64(std::string_view text, std::string& bytes);

}  // namespace hearth::tokenizer
