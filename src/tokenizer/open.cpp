#include "base/error.h"
#include "tokenizer/bytes.h"
#include "tokenizer/document_tokens.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name, const OpenOptions& options) {
  if (name == "bytes") {
    if (!options.bos_token.empty() || !options.eos_token.empty())
      find_document_tokens({},
                           {.bos_name = options.bos_token, .eos_name = options.eos_token, .origin = name});  // throws
    return std::make_unique<BytesTokenizer>();
  }
  throw user_error(fmt::format("there is no tokenizer \"{}\"", name), "known tokenizers: bytes",
                   "give --tokenizer bytes");
}

}  // namespace hearth::tokenizer
