// What the texts of a record weigh, and what that makes of their tokens.
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

// A text of a record, in the order in which they are joined.
struct JoinedPart {
  size_t key = 0;  // index in ReadRules::text_keys
  size_t bytes = 0;
};

// The weights of their bytes once they are joined by the rules: `weight` where the text's key is one of loss_keys (or
// loss_keys is empty), otherwise 0. The text between two texts counts where both of them count.
WeightRuns weights_of_texts(const ReadRules& rules, std::span<const JoinedPart> parts, float weight);

// From the weights of a text's bytes to those of its tokens: each weighs what the byte does that it begins with.
class TextWeights {
 public:
  explicit TextWeights(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the weights of `ids`, which are what the tokenizer makes of `text`. `bytes`: weights of a text of which
  // this is the part that starts at `begin`.
  void append(std::string_view text, std::span<const uint32_t> ids, const WeightRuns& bytes, int64_t begin,
              WeightRuns& tokens);

 private:
  std::vector<int64_t> decoded_begins(std::span<const uint32_t> ids);
  int64_t decoded_size(std::string_view text);

  const tokenizer::Tokenizer& tokenizer_;
  std::unique_ptr<tokenizer::Encoder> encoder_;  // of beginnings of a text, made when one is needed
  std::string decoded_;
};

}  // namespace hearth::data
