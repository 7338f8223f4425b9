// SPDX-License-Identifier: Apache-2.0
#include "data/formats/text_weights.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::data {

WeightRuns weights_of_texts(const ReadRules& rules, std::span<const JoinedPart> parts, float weight) {
  WeightRuns weights;
  if (rules.loss_keys.empty() && weight == 1) return weights;
  const auto counts = [&](const JoinedPart& part) {
    const auto& keys = rules.loss_keys;
    return keys.empty() || std::ranges::find(keys, rules.text_keys[part.key]) != keys.end();
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const float here = counts(parts[i]) ? weight : 0;
    const bool joined = counts(parts[i]) && (i == 0 || counts(parts[i - 1]));
    if (i > 0 || rules.join_first) weights.append(std::ssize(rules.text_join), joined ? weight : 0);
    weights.append(static_cast<int64_t>(parts[i].bytes), here);
  }
  return weights;
}

// Start of each token in the text that all tokens decode to. The last entry is that text's size.
std::vector<int64_t> TextWeights::decoded_begins(std::span<const uint32_t> ids) {
  std::vector<int64_t> begins{0};
  decoded_.clear();
  for (const uint32_t id : ids) {
    tokenizer_.decode(id, decoded_);
    begins.push_back(std::ssize(decoded_));
  }
  return begins;
}

int64_t TextWeights::decoded_size(std::string_view text) {
  if (encoder_ == nullptr) encoder_ = tokenizer_.encoder();
  std::vector<uint32_t> ids;
  encoder_->encode(text, ids);
  return decoded_begins(ids).back();
}

// Most tokenizers decode to the text itself, perhaps after a space that they add. If one normalizes, the size of a
// prefix is that of its own decoded tokens.
void TextWeights::append(std::string_view text, std::span<const uint32_t> ids, const WeightRuns& bytes, int64_t begin,
                         WeightRuns& tokens) {
  const std::vector<int64_t> begins = decoded_begins(ids);
  const bool is_text = decoded_.ends_with(text) && decoded_.size() <= text.size() + 1;
  const int64_t before = std::ssize(decoded_) - std::ssize(text);
  size_t token = 0;
  for (const WeightRuns::Run& run : bytes.runs()) {
    const bool last = &run == &bytes.runs().back() || run.end >= begin + std::ssize(text);
    if (run.end < begin) continue;
    size_t end = ids.size();
    if (!last) {
      const int64_t size = run.end - begin;
      const int64_t border = size == 0 ? 0
                             : is_text ? before + size
                                       : decoded_size(text.substr(0, static_cast<size_t>(size)));
      end = static_cast<size_t>(std::lower_bound(begins.begin(), begins.end() - 1, border) - begins.begin());
    }
    if (end > token) tokens.append(static_cast<int64_t>(end - token), run.weight);
    token = std::max(token, end);
    if (last) return;
  }
}

}  // namespace hearth::data
