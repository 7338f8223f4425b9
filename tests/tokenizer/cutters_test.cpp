// The hand-written cutters against PCRE2, pattern by pattern.
#include <gtest/gtest.h>

#include "support/mixed_text.h"
#include "tokenizer/pretokenizer.h"

namespace hearth::tokenizer {
namespace {

std::vector<std::string_view> all_patterns() {
  return {kGpt2Pattern,         kLlama3Pattern,       kQwen2Pattern,        kO200kPattern,
          kDeepSeekPatterns[0], kDeepSeekPatterns[1], kDeepSeekPatterns[2], kDigitsPattern};
}

std::string quoted(std::string_view text) { return testing::PrintToString(std::string(text)); }

// Both cut `text` in the same pieces; says where they part.
void expect_same_pieces(const std::vector<SplitStep>& steps, std::string_view text) {
  const auto fast = Pretokenizer(steps).pieces(text);
  const auto slow = Pretokenizer(steps, Matching::kRegex).pieces(text);
  for (size_t i = 0; i < std::min(fast.size(), slow.size()); ++i) {
    if (fast[i] == slow[i] && fast[i].data() == slow[i].data()) continue;
    const auto at = static_cast<size_t>(fast[i].data() - text.data());
    FAIL() << steps.front().pattern << "\nat byte " << at << " of " << quoted(text.substr(at > 20 ? at - 20 : 0, 60))
           << "\nby hand " << quoted(fast[i]) << "\nby PCRE2 " << quoted(slow[i]);
  }
  EXPECT_EQ(fast.size(), slow.size()) << steps.front().pattern;
}

TEST(Cutters, CutMixedTextAsTheRegularExpressionsDo) {
  const std::string text = test::MixedText(1).make(400'000);
  for (const std::string_view pattern : all_patterns()) expect_same_pieces({{std::string(pattern)}}, text);
}

TEST(Cutters, CutTextWithInvalidBytesAsTheRegularExpressionsDo) {
  const std::string text = test::MixedText(2, true).make(200'000);
  for (const std::string_view pattern : all_patterns()) expect_same_pieces({{std::string(pattern)}}, text);
}

TEST(Cutters, CutEveryTextOfAFewCharactersAsTheRegularExpressionsDo) {
  // One of each kind that any pattern tells apart, in every order, with every end.
  const std::vector<std::string> alphabet = {"a", "S",    "'",      " ",      "\n",     "1",
                                             ".", "\t",   "\u0301", "\u01c5", "\u3042", "\u02b0",
                                             "/", "\x01", "\u017f", "\xff",   "l"};
  std::vector<std::string> texts;
  for (const auto& a : alphabet)
    for (const auto& b : alphabet)
      for (const auto& c : alphabet)
        for (const auto& d : alphabet) texts.push_back(a + b + c + d);
  for (const std::string_view pattern : all_patterns()) {
    const Pretokenizer fast({{std::string(pattern)}}), slow({{std::string(pattern)}}, Matching::kRegex);
    Pretokenizer::Cutter fast_cutter(fast), slow_cutter(slow);
    std::vector<std::string_view> fast_pieces, slow_pieces;
    for (const std::string& text : texts) {
      fast_cutter.start(text);
      slow_cutter.start(text);
      fast_cutter.next(fast_pieces);
      slow_cutter.next(slow_pieces);
      ASSERT_EQ(fast_pieces, slow_pieces) << pattern << "\n" << quoted(text);
    }
  }
}

}  // namespace
}  // namespace hearth::tokenizer
