// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tokenizer/formats/huggingface_writer.h"
#include "tokenizer/formats/tiktoken.h"
#include "tokenizer/unicode/byte_alphabet.h"

namespace hearth::tokenizer {

// tiktoken has ranks of tokens only: two neighbours merge if their bytes are a token. So each way to cut a token into
// two tokens is a merge. Source of the order: transformers, convert_slow_tokenizer.py, TikTokenConverter.
std::string TiktokenTokenizer::as_huggingface_file() const {
  std::vector<Merge> merges;
  HuggingFaceBpe file{.spelled = {}, .special = special_, .pattern = kLlama3Pattern, .merges = {}};
  for (uint32_t id = 0; id < bpe_.size(); ++id) {
    file.spelled.push_back(alphabet_of_bytes(bpe_.token(id)));
    std::vector<Merge> splits = bpe_.splits_of(id);
    std::sort(splits.begin(), splits.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
    merges.insert(merges.end(), splits.begin(), splits.end());
  }
  file.merges = merges;
  file.ignore_merges = true;
  if (const auto bos = std::find_if(special_.begin(), special_.end(),
                                    [&](const SpecialToken& token) { return token.id == document_tokens_.bos; });
      bos != special_.end())
    file.before = *bos;
  return format_huggingface_file(file);
}

}  // namespace hearth::tokenizer
