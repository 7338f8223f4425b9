// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/tiktoken.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/mixed_text.h"
#include "tokenizer/llama3_reference.h"
#include "tokenizer/pretokenizer/meta_cuts.h"

namespace hearth::tokenizer {
namespace {

// The ids of `text` by tiktoken. `how` is one of the script's modes.
std::vector<uint32_t> ids_of_reference(const std::string& text, const std::string& how) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "text", text);
  ask_reference("ids " + (folder / "text").string() + " " + (folder / "ids").string() + " " + how);
  return read_numbers<uint32_t>(folder / "ids");
}

std::vector<uint32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                             SpecialText special = SpecialText::kPlain) {
  std::vector<uint32_t> ids;
  tokenizer.encoder(special)->encode(text, ids);
  return ids;
}

void expect_same_ids(const Tokenizer& tokenizer, const std::vector<uint32_t>& ours,
                     const std::vector<uint32_t>& theirs) {
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (a == ours.end() && b == theirs.end()) return;
  const auto at = a - ours.begin();
  const auto around = [&](const std::vector<uint32_t>& ids) {
    const auto first = ids.begin() + std::max<std::ptrdiff_t>(at - 5, 0),
               last = ids.begin() + std::min<std::ptrdiff_t>(at + 5, std::ssize(ids));
    return testing::PrintToString(tokenizer.decode_all({first, last}));
  };
  FAIL() << "at id " << at << "\nours   " << around(ours) << "\ntheirs " << around(theirs);
}

class Tiktoken : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!path_exists(test::oracle_python())) return;
    const std::string file = read_file(llama3_model());
    with_cuts = std::make_unique<TiktokenTokenizer>(file, "tokenizer.model");
    without_cuts = std::make_unique<TiktokenTokenizer>(file, "tokenizer.model", false);
  }
  static void TearDownTestSuite() {
    with_cuts.reset();
    without_cuts.reset();
  }
  static inline std::unique_ptr<TiktokenTokenizer> with_cuts, without_cuts;
};

TEST_F(Tiktoken, MixedTextHasTheIdsOfTheReference) {
  HEARTH_NEEDS_ORACLE();
  const std::string text = test::MixedText(11).make(3'000'000);
  const auto ours = ids_of(*with_cuts, text);
  expect_same_ids(*with_cuts, ours, ids_of_reference(text, "meta"));
  EXPECT_EQ(with_cuts->decode_all(ours), text);
}

TEST_F(Tiktoken, SpecialTextIsPlainUnlessItIsToBeParsedAndIsCountedEitherWay) {
  HEARTH_NEEDS_ORACLE();
  std::string text = "<|begin_of_text|>He said <|eot_id|> twice<|eot_id|>\n<|reserved_special_token_247|><|eot_id";
  text += test::MixedText(12).make(200'000);
  for (const SpecialText special : {SpecialText::kPlain, SpecialText::kParse}) {
    const auto encoder = without_cuts->encoder(special);
    std::vector<uint32_t> ids;
    encoder->encode(text, ids);
    expect_same_ids(*without_cuts, ids, ids_of_reference(text, special == SpecialText::kPlain ? "plain" : "special"));
    size_t spelled = 0;
    for (const SpecialToken& token : without_cuts->special_tokens())
      for (size_t at = text.find(token.text); at != std::string::npos; at = text.find(token.text, at + 1)) ++spelled;
    EXPECT_EQ(encoder->counts().special_text_seen, static_cast<int64_t>(spelled));
    EXPECT_GT(spelled, 10u);
    EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 0);
  }
}

// Runs of and around 25,000 characters, parts of 400,000, with characters of one to four bytes.
std::string text_of_long_runs() {
  std::string text;
  const auto repeat = [&](std::string_view what, size_t count) {
    for (size_t i = 0; i < count; ++i) text += what;
  };
  for (const std::string_view letter : {"a", "\u00e9", "\u4e00", "\U0001F600"}) {
    for (const size_t count : {24'999u, 25'000u, 25'001u, 50'000u, 50'001u}) {
      repeat(letter, count);
      text += ' ';
    }
  }
  for (const std::string_view space : {" ", "\n", "\u3000", "\x1c", " \t"}) {
    repeat(space, 25'001);
    text += "x";
  }
  text += '\x1c';  // white space to Python, so this run is one character longer
  repeat(" ", 25'001);
  repeat("word ", 90'000);
  repeat("\u00e9t\u00e9 ", 110'000);
  repeat("=", 500'000);
  return text;
}

TEST_F(Tiktoken, LongRunsAreCutAsMetasCodeCutsThem) {
  HEARTH_NEEDS_ORACLE();
  const std::string text = text_of_long_runs();
  const auto ours = ids_of(*with_cuts, text), theirs = ids_of_reference(text, "meta");
  expect_same_ids(*with_cuts, ours, theirs);
  EXPECT_NE(ids_of(*without_cuts, text), ours);
}

TEST_F(Tiktoken, AnyBytesComeBack) {
  HEARTH_NEEDS_ORACLE();
  std::string bytes;
  const RandomKey key = random_key(1, "bytes");
  for (uint64_t i = 0; i < 300'000; ++i) bytes.push_back(static_cast<char>(random_u64(key, i)));
  for (const std::string& text :
       {bytes, test::MixedText(13, true).make(500'000), std::string("\0\0a\0", 4), std::string()}) {
    EXPECT_TRUE(with_cuts->decode_all(ids_of(*with_cuts, text)) == text);
    EXPECT_TRUE(without_cuts->decode_all(ids_of(*without_cuts, text)) == text);
  }
}

TEST_F(Tiktoken, ATextMayBeCutWhereSafeCutSays) {
  HEARTH_NEEDS_ORACLE();
  for (const TiktokenTokenizer* tokenizer : {with_cuts.get(), without_cuts.get()}) {
    const std::string text = test::MixedText(14).make(2'500'000);
    const size_t limit = tokenizer == with_cuts.get() ? 1'600'000 : 5'000;
    std::vector<uint32_t> ids;
    const auto encoder = tokenizer->encoder();
    size_t cuts = 0;
    for (std::string_view rest = text; !rest.empty(); ++cuts) {
      const size_t cut = tokenizer->safe_cut(rest, std::min(limit, rest.size()));
      ASSERT_GT(cut, 0u);
      ASSERT_TRUE(cut <= limit || cut == rest.size());
      encoder->encode(rest.substr(0, cut), ids);
      rest.remove_prefix(cut);
    }
    EXPECT_GT(cuts, tokenizer == with_cuts.get() ? 1u : 100u);
    expect_same_ids(*tokenizer, ids, ids_of(*tokenizer, text));
  }
}

TEST_F(Tiktoken, KnowsLlama3sSpecialTokens) {
  HEARTH_NEEDS_ORACLE();
  EXPECT_EQ(with_cuts->vocab_size(), 128'256);
  EXPECT_EQ(with_cuts->bos(), 128'000u);
  EXPECT_EQ(with_cuts->eos(), 128'001u);
  EXPECT_EQ(with_cuts->special_tokens().size(), 256u);
  EXPECT_EQ(with_cuts->special_tokens()[255].text, "<|reserved_special_token_245|>");
  std::string text;
  with_cuts->decode(128'000, text);
  EXPECT_EQ(text, "");
  EXPECT_THROW(with_cuts->decode(128'256, text), Error);
  EXPECT_NE(with_cuts->content_hash(), without_cuts->content_hash());
}

TEST_F(Tiktoken, IsOpenedByItsContent) {
  HEARTH_NEEDS_ORACLE();
  const auto opened = open_tokenizer(llama3_model().parent_path().string());
  EXPECT_EQ(opened->kind(), "tiktoken");
  EXPECT_EQ(opened->content_hash(), with_cuts->content_hash());
  OpenOptions options;
  options.without_meta_cuts = true;
  options.eos_token = "<|eot_id|>";
  const auto other = open_tokenizer(llama3_model().string(), options);
  EXPECT_EQ(other->bos(), 128'000u);
  EXPECT_EQ(other->eos(), 128'009u);
  EXPECT_NE(other->content_hash(), without_cuts->content_hash());
}

TEST_F(Tiktoken, ACopyThatIsKeptCutsAsTheManifestsHashSays) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder folder;
  keep_tokenizer(folder.path(), with_cuts->name(), with_cuts->file_content(), "temporary");
  const DocumentTokens ends{with_cuts->bos(), with_cuts->eos()};
  std::string run;
  while (run.size() < 30'000) run += "abc";
  std::vector<std::vector<uint32_t>> both;
  for (const TiktokenTokenizer* written : {with_cuts.get(), without_cuts.get()}) {
    const auto kept = open_kept_tokenizer(folder.path(), written->name(), written->content_hash(), ends);
    EXPECT_EQ(kept->content_hash(), written->content_hash());
    std::vector<uint32_t> ids, expected;
    kept->encode(run, ids);
    written->encode(run, expected);
    EXPECT_EQ(ids, expected);
    both.push_back(ids);
  }
  EXPECT_NE(both[0], both[1]);
  EXPECT_THROW(open_kept_tokenizer(folder.path(), with_cuts->name(), std::string(32, '0'), ends), Error);
}

TEST(OpenTokenizer, MetasCutsCanOnlyBeLeftOutWhereThereAreSome) {
  OpenOptions options;
  options.without_meta_cuts = true;
  try {
    open_tokenizer("bytes", options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), "bytes does not use Meta's cuts");
  }
}

TEST(TiktokenFile, IsKnownByItsFirstLine) {
  EXPECT_TRUE(looks_like_tiktoken_file("IQ== 0\nIg== 1\n"));
  EXPECT_TRUE(looks_like_tiktoken_file("IQ== 0"));
  for (const std::string_view other :
       {"", "{\"model\": 1}", "\n\x0e\n\x05<unk>", "hello world\n", "IQ==  0", "IQ== x", "IQ= 0"})
    EXPECT_FALSE(looks_like_tiktoken_file(other)) << other;
}

TEST(TiktokenFile, WhatIsWrongIsNamedWithItsLine) {
  const auto refusal = [](const std::string& content) -> std::string {
    try {
      parse_tiktoken_file(content, "t.model");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged);
      return e.message() + ": " + e.why();
    }
    return "no error";
  };
  EXPECT_EQ(refusal("IQ== 0\nIg== 1\n"), "no error");
  EXPECT_EQ(refusal("IQ== 0\nIg= 1\n"),
            "t.model:2: not a token and its rank: a line is a token in base64, a space, and a number");
  EXPECT_EQ(refusal("IQ== 0\n\nIg== 0\n"), "t.model:3: not a token and its rank: rank 0 appears twice");
  EXPECT_EQ(refusal("IQ== 99999999999\n"),
            "t.model:1: not a token and its rank: rank 99999999999 is larger than the file");
  EXPECT_EQ(refusal("IQ== 0\nIg== 2\n"),
            "t.model has 2 tokens and ranks up to 2: every rank from 0 on must appear once");
  try {
    TiktokenTokenizer("IQ== 0\nIg== 1\n", "t.model");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.message(), "t.model is a tiktoken file of 2 tokens");
  }
}

}  // namespace
}  // namespace hearth::tokenizer
