// Which tokens begin and end a document. A tokenizer file seldom says it outright: the template knows what stands
// around a text, a tokenizer_config.json beside the file may name both, and else the usual names are looked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

// What is looked at, in this order, for each of the two. Throws user_error where a name that was given is no special
// token, listing what there is.
struct DocumentTokenSearch {
  std::string bos_name{}, eos_name{};              // given by the user; empty: not
  std::optional<uint32_t> before{}, after{};       // of the file's own template
  std::optional<uint32_t> file_bos{}, file_eos{};  // of the file, where its format has a place for them
  Path folder{};                                   // where a tokenizer_config.json may lie; empty: nowhere
  std::string origin{};                            // names the tokenizer in errors
};
DocumentTokens find_document_tokens(std::span<const SpecialToken> special, const DocumentTokenSearch& search);

// Tokenizer::content_hash of a tokenizer that is a file: the file and these two decide all ids of a dataset.
std::string hash_with_document_tokens(std::string_view content, const DocumentTokens& tokens);

}  // namespace hearth::tokenizer
