// SPDX-License-Identifier: Apache-2.0
// Text of any bytes: the hand-written cutters against PCRE2; encoding with a cache, without one and in parts; decoding
// gives the text back.
#include "support/mixed_text.h"
#include "target.h"
#include "tokenizer/bpe/train.h"
#include "tokenizer/formats/huggingface.h"
#include "tokenizer/pretokenizer/pretokenizer.h"

namespace hearth::fuzz {
namespace {

using tokenizer::Matching;
using tokenizer::Pretokenizer;

struct Pattern {
  explicit Pattern(std::string_view pattern)
      : by_hand({{std::string(pattern)}}), by_regex({{std::string(pattern)}}, Matching::kRegex) {}
  Pretokenizer by_hand, by_regex;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = [] {
    std::vector<Pattern> made;
    for (const std::string_view pattern : {tokenizer::kGpt2Pattern, tokenizer::kLlama3Pattern, tokenizer::kQwen2Pattern,
                                           tokenizer::kO200kPattern, tokenizer::kDeepSeekPatterns[2]})
      made.emplace_back(pattern);
    return made;
  }();
  return all;
}

// A vocabulary of 600 tokens, learned from mixed text.
const tokenizer::HuggingFaceTokenizer& trained() {
  static const tokenizer::HuggingFaceTokenizer made = [] {
    const std::string text = test::MixedText(51).make(100'000);
    tokenizer::PieceCounts counts;
    for (const std::string_view piece : patterns()[1].by_hand.pieces(text)) counts.add(piece);
    const tokenizer::BpeTraining training{600, {"<s>"}, std::string(tokenizer::kLlama3Pattern)};
    return tokenizer::HuggingFaceTokenizer(huggingface_file(train_bpe(counts, training, nullptr)), "trained");
  }();
  return made;
}

}  // namespace

void run(std::string_view input) {
  for (const Pattern& pattern : patterns())
    require(pattern.by_hand.pieces(input) == pattern.by_regex.pieces(input), "a cutter and PCRE2 disagree");

  const tokenizer::HuggingFaceTokenizer& tokenizer = trained();
  static const auto cached = tokenizer.encoder(), uncached = tokenizer.encoder_without_cache();
  std::vector<uint32_t> ids, other;
  uncached->encode(input, ids);
  require(tokenizer.decode_all(ids) == input, "decoding does not give the text back");
  cached->encode(input, other);
  require(other == ids, "the cache changes the ids");
  other.clear();
  for (std::string_view rest = input; !rest.empty();) {
    const size_t cut = tokenizer.safe_cut(rest, std::min<size_t>(rest.size(), 50));
    cached->encode(rest.substr(0, cut), other);
    rest.remove_prefix(cut);
  }
  require(other == ids, "cutting where it is safe changes the ids");
}

std::vector<std::string> seeds() {
  return {test::MixedText(52).make(300), test::MixedText(53, true).make(300), test::MixedText(54).make(3000),
          "I'll say: don't 'tis 12345 67\n\n  \t if (a[i] != NULL) {\r\n    return foo_bar(x, 'c');\n    }   \n \n"};
}

}  // namespace hearth::fuzz
