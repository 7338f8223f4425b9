#include "base/error.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<BytesTokenizer>();
  throw user_error(fmt::format("there is no tokenizer \"{}\"", name), "known tokenizers: bytes",
                   "give --tokenizer bytes");
}

}  // namespace hearth::tokenizer
