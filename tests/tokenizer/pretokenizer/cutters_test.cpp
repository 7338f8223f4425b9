// SPDX-License-Identifier: Apache-2.0
// The hand-written cutters compared with PCRE2, pattern by pattern.
#include <gtest/gtest.h>

#include "base/random.h"
#include "support/mixed_text.h"
#include "tokenizer/pretokenizer/pretokenizer.h"

namespace hearth::tokenizer {
namespace {

std::vector<std::string_view> all_patterns() {
  return {kGpt2Pattern,         kLlama3Pattern,       kQwen2Pattern,        kO200kPattern,
          kDeepSeekPatterns[0], kDeepSeekPatterns[1], kDeepSeekPatterns[2], kDigitsPattern};
}

std::string quoted(std::string_view text) { return testing::PrintToString(std::string(text)); }

// Checks that both cut `text` into the same pieces; shows the first difference.
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
  const std::string text = test::MixedText(1).make(120'000);
  for (const std::string_view pattern : all_patterns()) expect_same_pieces({{std::string(pattern)}}, text);
}

TEST(Cutters, CutTextWithInvalidBytesAsTheRegularExpressionsDo) {
  const std::string text = test::MixedText(2, true).make(80'000);
  for (const std::string_view pattern : all_patterns()) expect_same_pieces({{std::string(pattern)}}, text);
}

TEST(Cutters, CutEveryTextOfAFewCharactersAsTheRegularExpressionsDo) {
  // One character of each kind that any pattern distinguishes, in every order, with every end.
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

TEST(Cutters, CutLongRunsAndMixturesOfAsciiAsTheRegularExpressionsDo) {
  // Windows of 64 bytes begin and end at random characters. Half of the characters repeat the one before.
  constexpr std::string_view kAlphabet = "aSlrevdtm'''''    \n\n\r\t1234..,/\x01\x0b\x7f";
  const RandomKey key = random_key(3, "ascii runs");
  uint64_t counter = 0;
  std::string text;
  while (text.size() < 150'000) {
    const uint64_t random = random_u64(key, counter++);
    if (random % 200 == 0)
      text += "\u00e9";
    else if (random % 2 == 0 && !text.empty() && static_cast<unsigned char>(text.back()) < 0x80)
      text.push_back(text.back());
    else
      text.push_back(kAlphabet[(random >> 16) % kAlphabet.size()]);
  }
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern})
    expect_same_pieces({{std::string(pattern)}}, text);
  // Every end of a text, and every place of a piece in its first windows.
  const Pretokenizer fast({{std::string(kLlama3Pattern)}}), slow({{std::string(kLlama3Pattern)}}, Matching::kRegex);
  for (size_t begin = 0; begin < 100; ++begin) {
    for (const size_t size : {64, 65, 66, 100, 128, 129}) {
      const std::string_view part = std::string_view(text).substr(begin * 97, size);
      ASSERT_EQ(fast.pieces(part), slow.pieces(part)) << quoted(part);
    }
  }
}

}  // namespace
}  // namespace hearth::tokenizer
