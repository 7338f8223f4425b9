// SPDX-License-Identifier: Apache-2.0
#include "data/batch/prompt.h"

#include <span>

namespace hearth::data {

std::vector<int32_t> document_start(const tokenizer::Tokenizer& tokenizer, bool document_bos) {
  std::vector<int32_t> start;
  if (tokenizer.eos()) start.push_back(static_cast<int32_t>(*tokenizer.eos()));
  if (tokenizer.bos() && (document_bos || start.empty())) start.push_back(static_cast<int32_t>(*tokenizer.bos()));
  return start;
}

std::vector<int32_t> prompt_tokens(const tokenizer::Tokenizer& tokenizer, bool document_bos, std::string_view text) {
  std::vector<uint32_t> ids;
  tokenizer.encode(text, ids);
  std::vector<int32_t> tokens = document_start(tokenizer, document_bos);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  return tokens;
}

std::string mask_text(const tokenizer::Tokenizer& tokenizer, int32_t mask_id) {
  for (const tokenizer::SpecialToken& token : tokenizer.special_tokens())
    if (static_cast<int32_t>(token.id) == mask_id) return token.text;
  return "[MASK]";
}

std::string MaskedPrompt::text(const tokenizer::Tokenizer& tokenizer) const {
  const std::vector<uint32_t> of_text(ids.begin() + static_cast<std::ptrdiff_t>(start), ids.end());
  return tokenizer.decode_all(of_text);
}

MaskedPrompt masked_prompt(const tokenizer::Tokenizer& tokenizer, bool document_bos, int32_t mask_id,
                           std::string text) {
  const std::string mask = mask_text(tokenizer, mask_id);
  constexpr std::string_view kUsual = "[MASK]";
  for (size_t at = 0; (at = text.find(kUsual, at)) != std::string::npos; at += mask.size())
    text.replace(at, kUsual.size(), mask);

  MaskedPrompt prompt{.ids = document_start(tokenizer, document_bos)};
  prompt.start = std::ssize(prompt.ids);
  std::vector<uint32_t> part;
  for (size_t begin = 0;;) {
    const size_t end = text.find(mask, begin);
    part.clear();
    tokenizer.encode(text.substr(begin, end - begin), part);
    prompt.ids.insert(prompt.ids.end(), part.begin(), part.end());
    if (end == std::string::npos) break;
    prompt.open.push_back(std::ssize(prompt.ids));
    prompt.ids.push_back(mask_id);
    begin = end + mask.size();
  }
  if (tokenizer.eos()) prompt.ids.push_back(static_cast<int32_t>(*tokenizer.eos()));
  return prompt;
}

}  // namespace hearth::data
