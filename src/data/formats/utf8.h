// SPDX-License-Identifier: Apache-2.0
// The bytes of a text that are not UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth::data {

// Number of bytes outside well-formed sequences (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF).
int64_t count_invalid_utf8(std::string_view text);

}  // namespace hearth::data
