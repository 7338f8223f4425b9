// SPDX-License-Identifier: Apache-2.0
// A text that a model writes token by token, until EOS, a stop string or a number of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "decode/sampling.h"
#include "infer/text_stream.h"
#include "tokenizer/tokenizer.h"

namespace hearth::infer {

struct WritingRules {
  int64_t max_tokens = 256;
  decode::SamplingOptions sampling{};
  std::vector<std::string> stop{};  // none is empty
};

enum class Ending { kLength, kEos, kStop };
std::string_view name_of(Ending ending);  // "length", "eos", "stop"

class TextWriter {
 public:
  // Borrows the tokenizer and the rules.
  TextWriter(const tokenizer::Tokenizer& tokenizer, const WritingRules& rules, uint64_t seed);

  // The prompt as it is shown before the text. Half a character at its end is held back until the first token.
  std::string begin(std::string_view prompt) { return characters_.push(prompt); }

  // Chooses the next token from its logits. Returns it if the model has to read it; else the text has ended.
  std::optional<int32_t> next(std::span<const double> logits);

  // The new text that can be shown, in whole characters. Text that may begin a stop string is held back, and a stop
  // string that ends the text is not shown.
  std::string take_text();
  int64_t tokens() const { return tokens_; }                // chosen so far, without EOS
  std::optional<Ending> ending() const { return ending_; }  // empty: the text has not ended

 private:
  void add(std::string_view text);
  void end(Ending ending);

  const tokenizer::Tokenizer& tokenizer_;
  const WritingRules& rules_;
  const RandomKey key_;
  TextStream characters_;
  std::string shown_, waiting_;
  int64_t tokens_ = 0;
  std::optional<Ending> ending_;
};

}  // namespace hearth::infer
