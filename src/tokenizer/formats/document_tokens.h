// SPDX-License-Identifier: Apache-2.0
// Which tokens begin and end a document. A tokenizer file seldom names them directly. They are found from its template,
// from a tokenizer_config.json in the same folder, or from a list of usual names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

// The sources for BOS and for EOS, in order of priority. Throws user_error if a name given by the user is not a special
// token, and lists the special tokens.
struct DocumentTokenSearch {
  std::string bos_name{}, eos_name{};  // given by the user; empty: not given
  DocumentTokens in_file{};            // from the file itself: its template, or its fields
  Path folder{};                       // where to look for a tokenizer_config.json; empty: nowhere
  std::string origin{};                // names the tokenizer in errors
};
DocumentTokens find_document_tokens(std::span<const SpecialToken> special, const DocumentTokenSearch& search);

// Tokenizer::content_hash of a tokenizer from a file: the file and these two tokens determine all ids of a dataset.
std::string hash_with_document_tokens(std::string_view content, const DocumentTokens& tokens);

}  // namespace hearth::tokenizer
