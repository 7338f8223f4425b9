// SPDX-License-Identifier: Apache-2.0
// Weights of a record's texts and of their tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/formats/label_weights.h"
#include "data/formats/read_rules.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

// One of a record's texts, in the order of joining.
struct JoinedPart {
  size_t key = 0;  // index in ReadRules::text_keys
  size_t bytes = 0;
};

// Weights of the joined texts' bytes: `weight` if the text's key is in loss_keys or loss_keys is empty, otherwise 0. A
// separator counts if the texts before and after it count.
WeightRuns weights_of_texts(const ReadRules& rules, std::span<const JoinedPart> parts, float weight);

// Turns weights of a text's bytes into weights of its tokens. A token has the weight of its first byte.
class TextWeights {
 public:
  explicit TextWeights(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the weights of `ids`, the tokens of `text`. `text` starts at byte `begin` of a longer text with the weights
  // `bytes`.
  void append(std::string_view text, std::span<const uint32_t> ids, const WeightRuns& bytes, int64_t begin,
              WeightRuns& tokens);

 private:
  std::vector<int64_t> decoded_begins(std::span<const uint32_t> ids);
  int64_t decoded_size(std::string_view text);

  const tokenizer::Tokenizer& tokenizer_;
  std::unique_ptr<tokenizer::Encoder> encoder_;  // for prefixes of a text; made on first use
  std::string decoded_;
};

}  // namespace hearth::data
