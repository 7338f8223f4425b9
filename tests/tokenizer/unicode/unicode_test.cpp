// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode/unicode.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "support/mixed_text.h"
#include "tokenizer/llama3_reference.h"

namespace hearth::tokenizer {
namespace {

TEST(Unicode, EveryCodePointHasTheCategoryThatTheReferencesGiveIt) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder folder;
  ask_reference("categories " + (folder / "categories").string());
  const std::string theirs = read_file(folder / "categories");
  ASSERT_EQ(theirs.size(), 2u * 0x110000);
  constexpr std::string_view kNames = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(kNames.substr(2 * static_cast<size_t>(category(c)), 2), theirs.substr(2 * size_t{c}, 2))
        << std::hex << uint32_t{c};
  }
}

// Also without the oracle, and after a change of its version: the hash of the tables that were compared.
TEST(Unicode, TheTablesAreTheSameOnEveryMachine) {
  std::string classes;
  for (char32_t c = 0; c < 0x110000; ++c) classes.push_back(static_cast<char>(class_of(c)));
  EXPECT_EQ(xxh3_128_hex(classes), "7e90e0e57f7ec416db9d095fa0e4111b");
}

TEST(Unicode, WhiteSpaceIsThePropertyOfThatName) {
  std::vector<uint32_t> found;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (is_white_space(c)) found.push_back(c);
  EXPECT_EQ(found, (std::vector<uint32_t>{9,      10,     11,     12,     13,     0x20,   0x85,   0xA0,   0x1680,
                                          0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                          0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}));
}

TEST(Unicode, NfcIsThatOfTokenizers) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder folder;
  ask_reference("nfc " + (folder / "text").string() + " " + (folder / "nfc").string());
  const std::string text = read_file(folder / "text"), theirs = read_file(folder / "nfc");
  ASSERT_GT(text.size(), 1'000'000u);
  std::string ours;
  append_normal(NormalForm::kNfc, text, ours);
  // Parts are separated by spaces, which compose with nothing.
  size_t a = 0, b = 0, start = 0;
  while (a < ours.size() && b < theirs.size() && ours[a] == theirs[b]) {
    if (ours[a] == ' ') start = a;
    ++a, ++b;
  }
  ASSERT_EQ(a, ours.size()) << testing::PrintToString(ours.substr(start, 40)) << "\n"
                            << testing::PrintToString(theirs.substr(start, 40));
  ASSERT_EQ(b, theirs.size());
}

TEST(Unicode, WhatIsSurelyNfcIsLeftAsItIs) {
  size_t sure = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = test::MixedText(seed, seed % 2 == 0).make(12);
    std::string normal;
    append_normal(NormalForm::kNfc, text, normal);
    if (is_surely_normal(NormalForm::kNfc, text)) {
      ++sure;
      ASSERT_EQ(normal, text) << testing::PrintToString(text);
    }
    std::string again;
    append_normal(NormalForm::kNfc, normal, again);
    ASSERT_EQ(again, normal) << testing::PrintToString(text);
  }
  EXPECT_GT(sure, 1500u);
  EXPECT_FALSE(is_surely_normal(NormalForm::kNfc, "e\u0301"));
}

TEST(Unicode, NothingIsComposedAcrossAnInvalidByte) {
  std::string out;
  append_normal(NormalForm::kNfc, "e\xff\u0301 e\u0301\xC3", out);
  EXPECT_EQ(out, "e\xff\u0301 \u00e9\xC3");
}

TEST(Unicode, IllFormedSequencesAreSingleInvalidBytes) {
  for (const std::string_view text : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xF0\x9F\x98"}) {
    const Decoded d = decode_utf8(text, 0);
    EXPECT_EQ(d.c, kInvalidByte) << testing::PrintToString(std::string(text));
    EXPECT_EQ(d.length, 1u);
  }
  std::string out;
  EXPECT_EQ(append_valid_utf8("a\xE2\x82z\xffok\u00e9", out), 3);
  EXPECT_EQ(out, "a\uFFFD\uFFFDz\uFFFDok\u00e9");
}

TEST(Unicode, EveryCodePointIsDecodedAsItIsEncoded) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(c, text);
    const Decoded d = decode_utf8(text, 0);
    ASSERT_EQ(d.c, c);
    ASSERT_EQ(d.length, text.size());
  }
}

}  // namespace
}  // namespace hearth::tokenizer
