// SPDX-License-Identifier: Apache-2.0
// Extended grapheme clusters (UAX #29) of Unicode 17.0, the version of `tokenizers` 0.23. The normalizer Precompiled
// looks up whole clusters.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::tokenizer {

// The end of the cluster that begins at `at`, which must be the start of a cluster in `text` and before its end. An
// invalid byte is a cluster of its own.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace hearth::tokenizer
