// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/mixed_text.h"
#include "tokenizer/llama3_reference.h"
#include "tokenizer/pretokenizer/regex.h"

namespace hearth::tokenizer {
namespace {

struct Case {
  std::string pattern;
  Behavior behavior;
  bool invert = false;
};

constexpr const char* kBehaviors[] = {"isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"};

// The script writes begin and end of each piece, without empty ones, which we never return.
std::vector<uint64_t> places_of_reference(const test::ScratchFolder& folder, const Case& c) {
  write_file_atomic(folder / "pattern", c.pattern);
  ask_reference("pieces " + (folder / "pattern").string() + " " + (folder / "text").string() + " " +
                (folder / "places").string() + " " + kBehaviors[static_cast<int>(c.behavior)] +
                (c.invert ? " 1" : " 0"));
  return read_numbers<uint64_t>(folder / "places");
}

void expect_places_of_reference(const std::vector<Case>& cases, const std::string& text) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "text", text);
  for (const Case& c : cases) {
    const Pretokenizer rules({{c.pattern, false, c.behavior, c.invert}});
    std::vector<uint64_t> ours;
    for (const std::string_view piece : rules.pieces(text)) {
      ours.push_back(static_cast<uint64_t>(piece.data() - text.data()));
      ours.push_back(ours.back() + piece.size());
    }
    EXPECT_TRUE(ours == places_of_reference(folder, c))
        << c.pattern << " " << kBehaviors[static_cast<int>(c.behavior)] << (c.invert ? " inverted" : "");
  }
}

TEST(Pretokenizer, EveryBehaviorCutsAsTokenizersDoes) {
  HEARTH_NEEDS_ORACLE();
  std::vector<Case> cases;
  for (int b = 0; b < 5; ++b) {
    cases.push_back({R"([\s,;]+|\d)", static_cast<Behavior>(b), false});
    cases.push_back({R"(\p{Lu}|\.)", static_cast<Behavior>(b), true});
  }
  cases.push_back({R"((?=[A-Z]))", Behavior::kIsolated});  // empty matches cut, too
  cases.push_back({R"((?=\d)|,)", Behavior::kMergedWithPrevious});
  expect_places_of_reference(cases, test::MixedText(21).make(60'000));
}

TEST(Pretokenizer, PublishedPatternsCutAsTokenizersDoes) {
  HEARTH_NEEDS_ORACLE();
  std::vector<Case> cases;
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kO200kPattern, kDeepSeekPatterns[2]})
    cases.push_back({std::string(pattern), Behavior::kIsolated});
  cases.push_back({std::string(kLlama3Pattern), Behavior::kRemoved, true});
  cases.push_back({std::string(kDigitsPattern), Behavior::kContiguous});
  // BLOOM's, with a class in a class.
  cases.push_back({" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", Behavior::kIsolated});
  cases.push_back({"[a-f[0-9 ]x]+", Behavior::kIsolated});
  expect_places_of_reference(cases, test::MixedText(22).make(200'000));
}

TEST(Pretokenizer, StepsCutWhatTheStepBeforeLeft) {
  const Pretokenizer rules({{std::string(kDigitsPattern)}, {R"( ?[a-z]+)"}, {"-", true, Behavior::kRemoved}});
  EXPECT_EQ(rules.pieces("ab 12-cd -e"), (std::vector<std::string_view>{"ab", " ", "1", "2", "cd", " ", "e"}));
  EXPECT_EQ(rules.pieces(""), std::vector<std::string_view>{});
  EXPECT_EQ(Pretokenizer({}).pieces("all of it"), std::vector<std::string_view>{"all of it"});
}

TEST(Pretokenizer, ALongTextIsCutBatchByBatch) {
  const std::string text = test::MixedText(23, true).make(300'000);
  std::vector<SplitStep> steps;
  for (const std::string_view pattern : kDeepSeekPatterns) steps.push_back({std::string(pattern)});
  const auto pieces = Pretokenizer(steps).pieces(text);
  EXPECT_EQ(pieces, Pretokenizer(steps, Matching::kRegex).pieces(text));
  std::string joined;
  for (const std::string_view piece : pieces) joined += piece;
  EXPECT_TRUE(joined == text);
}

TEST(Pretokenizer, CuttingAtASafePlaceChangesNothing) {
  for (const std::string_view pattern :
       {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kO200kPattern, kDeepSeekPatterns[2]}) {
    const Pretokenizer rules({{std::string(pattern)}});
    const std::string text = test::MixedText(24).make(300'000);
    std::vector<std::string_view> parts;
    size_t cuts = 0;
    for (std::string_view rest = text; !rest.empty(); ++cuts) {
      const size_t cut = rules.safe_cut(rest, std::min<size_t>(rest.size(), 2'000));
      for (const std::string_view piece : rules.pieces(rest.substr(0, cut))) parts.push_back(piece);
      rest.remove_prefix(cut);
    }
    EXPECT_GT(cuts, 20u) << pattern;
    EXPECT_EQ(parts, rules.pieces(text)) << pattern;
  }
  const Pretokenizer unknown({{"[a-z]+"}});
  EXPECT_EQ(unknown.safe_cut("some words here", 8), 15u);
}

std::string refusal(const std::string& pattern) {
  try {
    Pretokenizer({{pattern}}, Matching::kRegex);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    return e.message();
  }
  return "no error";
}

TEST(Regex, WhatEnginesReadDifferentlyIsRefusedByName) {
  for (const auto& [pattern, what] : std::vector<std::pair<std::string, std::string>>{{R"(\bword)", R"(\b)"},
                                                                                      {R"(\w+)", R"(\w)"},
                                                                                      {R"(\h)", R"(\h)"},
                                                                                      {"[a&&b]", "&&"},
                                                                                      {"[a[^b]]", "["},
                                                                                      {"[a[[b]]]", "["},
                                                                                      {"[[:alpha:]]", "["},
                                                                                      {"[a-[b]]", "-"},
                                                                                      {"[a[b]-c]", "-"},
                                                                                      {"a{2}+", "}+"},
                                                                                      {"a{,2}", "{,"},
                                                                                      {"(?m:a)", "(?m:"},
                                                                                      {R"(\p{Greek})", R"(\p{Greek})"},
                                                                                      {R"(\)", R"(\)"}})
    EXPECT_EQ(refusal(pattern), "the pattern " + pattern + " uses " + what);
  EXPECT_EQ(refusal("(a"), "not a regular expression: (a");
}

constexpr const char* kCasedText =
    "abc ABC aC c ss SS s\u017f \u00df \u1e9e ff \ufb00 Fi \ufb01 fl \ufb02 st \ufb05 \ufb06 it's IT'S we\u2019LL "
    "i\u0307 \u0130 k \u212a \u0264 \ua7cb \u0390 \u1fd3 Va2 \u0345";

// PCRE2's result for a pattern: begin and end of each match and of the text between matches.
std::vector<uint64_t> places_of_pcre2(const std::string& pattern, const std::string& text) {
  const Regex regex = Regex::untranslated(pattern);
  Regex::Matcher matcher(regex);
  std::vector<uint64_t> places;
  size_t at = 0;
  for (Regex::Match match{0, 0}; matcher.find(text, at, match); at = match.end) {
    if (match.begin > at) places.insert(places.end(), {at, match.begin});
    places.insert(places.end(), {match.begin, match.end});
  }
  if (at < text.size()) places.insert(places.end(), {at, text.size()});
  return places;
}

TEST(Regex, WhatTheEnginesMatchDifferentlyWhereCaseDoesNotCountIsRefused) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder folder;
  const std::string text = kCasedText;
  write_file_atomic(folder / "text", text);
  for (const auto& [pattern, what] : std::vector<std::pair<std::string, std::string>>{{"a(?i)b|c", "(?i)"},
                                                                                      {"(?:b(?i)c|a)", "(?i)"},
                                                                                      {"(?i:ss)", "ss"},
                                                                                      {"(?i)a|FI", "fi"},
                                                                                      {"(?i:s(?:s))", "ss"},
                                                                                      {"(?i:x|(?:SS)+)", "ss"},
                                                                                      {"(?i:\u00df)", "\u00df"},
                                                                                      {"(?i:[a\u00df])", "\u00df"},
                                                                                      {"(?i:[!-\u2019])", "-\u2019"},
                                                                                      {"(?i:\u0264)", "\u0264"},
                                                                                      {"(?i:\\x{df})", "\\x"},
                                                                                      {"(?i:[\\p{Lu}])", "\\p"}}) {
    EXPECT_EQ(refusal(pattern), "the pattern " + pattern + " uses " + what);
    // The refusal has a reason: the engines' results differ.
    EXPECT_FALSE(places_of_pcre2(pattern, text) == places_of_reference(folder, {pattern, Behavior::kIsolated}))
        << pattern;
  }
}

TEST(Regex, CaseThatDoesNotCountIsReadAsTokenizersReadsIt) {
  HEARTH_NEEDS_ORACLE();
  expect_places_of_reference({{R"((?i)a|b(?-i:C)|s+|\p{Lu}k?)", Behavior::kIsolated},
                              {R"(c|(?i)ab|(?:(?i)k|f)i?|s{2})", Behavior::kIsolated},
                              {"(?i:['\u2019](?:[sdmt]|ll|ve|re))|(?i:[^a-k\\s])|i", Behavior::kIsolated},
                              {R"((?i:s)(?i:s)|(?i:f[f]|f(?=i))|(?i:s|t)?(?i:i)|(?i:(?:x|s)s?))", Behavior::kIsolated}},
                             kCasedText);
}

// The distribution decides PCRE2's Unicode version; ours is pinned.
TEST(Regex, PropertiesMeanOurTablesWhateverPcre2Knows) {
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, all);
  const auto expect_set = [&](const std::string& pattern, bool (*has)(char32_t)) {
    std::vector<uint32_t> ours, theirs;
    for (const std::string_view piece :
         Pretokenizer({{pattern, false, Behavior::kRemoved, true}}, Matching::kRegex).pieces(all))
      for (size_t at = 0; at < piece.size();) {
        const Decoded d = decode_utf8(piece, at);
        theirs.push_back(d.c);
        at += d.length;
      }
    for (char32_t c = 0; c < 0x110000; ++c)
      if ((c < 0xD800 || c > 0xDFFF) && has(c)) ours.push_back(c);
    EXPECT_TRUE(ours == theirs) << pattern;
  };
  expect_set(R"(\p{L}+)", is_letter);
  expect_set(R"([\p{N}]+)", is_number);
  expect_set(R"(\p{Mn}+)", [](char32_t c) { return category(c) == Category::kMn; });
  expect_set(R"(\P{S}+)", [](char32_t c) { return !is_symbol(c); });
  expect_set(R"([^\s\p{P}]+)", [](char32_t c) { return !is_white_space(c) && !is_punctuation(c); });
  expect_set(R"([\S]+)", [](char32_t c) { return !is_white_space(c); });
}

}  // namespace
}  // namespace hearth::tokenizer
