// SPDX-License-Identifier: Apache-2.0
// Normalizers, Unigram and WordPiece models of tokenizer.json compared with the library `tokenizers`.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/mixed_text.h"
#include "tokenizer/formats/huggingface.h"
#include "tokenizer/formats/huggingface_normalizer.h"
#include "tokenizer/reference.h"
#include "tokenizer/small_file.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

const Path& normalizers_folder() {
  static const Path made = test::reference_folder("normalizers", "reference_normalizers.py");
  return made;
}

std::vector<std::string> styles() {
  std::vector<std::string> found = test::styles_in(normalizers_folder());
  std::erase(found, "text");
  return found;
}

TEST(Normalizers, EveryCodePointAndRandomTextBecomeWhatTokenizersMakesOfThem) {
  HEARTH_NEEDS_ORACLE();
  const auto texts = test::read_texts(normalizers_folder() / "texts.bin");
  ASSERT_GT(texts.size(), 300'000u);
  int num_normalizers = 0;
  for (const std::string& name : list_folder(normalizers_folder() / "text")) {
    if (!name.ends_with(".json")) continue;
    SCOPED_TRACE(name);
    ++num_normalizers;
    const std::string stem = name.substr(0, name.size() - 5);
    const Json json = Json::parse(read_file(normalizers_folder() / "text" / name));
    const Normalizer rules(read_normalizer(Node(json, "normalizer", name)));
    Normalizer::Runner runner(rules);
    const auto expected = test::read_texts(normalizers_folder() / "text" / (stem + ".bin"));
    ASSERT_EQ(expected.size(), texts.size());
    size_t num_changed = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      num_changed += texts[i] == expected[i] ? 0 : 1;
      const std::string_view ours = runner.run(texts[i]);
      if (ours == expected[i]) continue;  // ASSERT_EQ would print millions of texts
      FAIL() << testing::PrintToString(texts[i]) << " becomes " << testing::PrintToString(std::string(ours)) << ", not "
             << testing::PrintToString(expected[i]);
    }
    EXPECT_GT(num_changed, 20u);
  }
  EXPECT_EQ(num_normalizers, 25);
}

TEST(Normalizers, IdsEqualTokenizersForEveryStyleWithSpecialTextPlainAndParsed) {
  HEARTH_NEEDS_ORACLE();
  const auto documents = test::read_texts(normalizers_folder() / "documents.bin");
  ASSERT_GT(documents.size(), 6000u);
  ASSERT_EQ(styles().size(), 20u);
  for (const std::string& style : styles()) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((normalizers_folder() / style).string());
    const auto plain = test::read_ids(normalizers_folder() / style / "plain.bin"),
               parsed = test::read_ids(normalizers_folder() / style / "parsed.bin");
    EXPECT_NE(plain, parsed) << "no special token stands in the documents";
    const auto encoder = tokenizer->encoder(), uncached = tokenizer->encoder_without_cache(),
               parser = tokenizer->encoder(SpecialText::kParse);
    test::expect_same_ids(*encoder, documents, plain);
    test::expect_same_ids(*encoder, documents, plain);  // with a warm cache
    test::expect_same_ids(*uncached, documents, plain);
    test::expect_same_ids(*parser, documents, parsed);
  }
}

// Characters that became punctuation after Unicode 8.0 are none there.
TEST(Normalizers, PunctuationIsWhatTokenizersCutsAt) {
  HEARTH_NEEDS_ORACLE();
  const HuggingFaceFile file = parse_huggingface_file(test::small_word_file(), "t.json");
  const Pretokenizer rules(file.pretokenizer.at(0).cuts);
  Pretokenizer::Cutter cutter(rules);
  std::vector<std::string_view> pieces;
  std::vector<uint32_t> found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "a";
    append_utf8(c, text);
    text += 'b';
    cutter.start(text);
    cutter.next(pieces);
    if (pieces.size() == 3) found.push_back(c);
  }
  EXPECT_EQ(found, test::read_ids(normalizers_folder() / "punctuation.bin").at(0));
}

TEST(Normalizers, DecodingEqualsTokenizers) {
  HEARTH_NEEDS_ORACLE();
  for (const std::string& style : styles()) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((normalizers_folder() / style).string());
    const auto ids = test::read_ids(normalizers_folder() / style / "plain.bin");
    const auto decoded = test::read_texts(normalizers_folder() / style / "decoded.bin");
    for (size_t i = 0; i < ids.size(); ++i) {
      // `tokenizers` shows bytes that are no UTF-8 as U+FFFD, each on its own or several as one.
      std::string valid;
      if (append_valid_utf8(tokenizer->decode_all(ids[i]), valid) > 0) continue;
      ASSERT_EQ(tokenizer->decode_all(ids[i]), decoded[i]) << "document " << i;
    }
  }
}

TEST(Normalizers, IdsEqualTokenizersOnMixedText) {
  HEARTH_NEEDS_ORACLE();
  std::vector<std::string> documents;
  test::MixedText text(43);
  for (size_t made = 0; made < 1'000'000; made += documents.back().size()) documents.push_back(text.make(20'000));
  for (const std::string& style : styles()) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((normalizers_folder() / style).string());
    test::expect_same_ids(*tokenizer->encoder(), documents,
                          test::ids_of_reference(normalizers_folder() / style, documents));
  }
}

TEST(Normalizers, CuttingWhereItIsSafeGivesTheSameIds) {
  HEARTH_NEEDS_ORACLE();
  auto documents = test::read_texts(normalizers_folder() / "documents.bin");
  for (uint64_t seed = 0; seed < 100; ++seed) documents.push_back(test::MixedText(seed).make(3000));
  std::map<std::string, int> cuts;
  for (const std::string& style : styles()) {
    const auto tokenizer = open_tokenizer((normalizers_folder() / style).string());
    const auto encoder = tokenizer->encoder();
    for (const std::string& document : documents) {
      if (document.size() < 200) continue;
      for (const size_t limit : {40, 100}) {
        std::vector<uint32_t> whole, parts;
        encoder->encode(document, whole);
        std::string_view rest = document;
        while (!rest.empty()) {
          const size_t cut = tokenizer->safe_cut(rest, std::min<size_t>(rest.size(), limit));
          ASSERT_GT(cut, 0u);
          encoder->encode(rest.substr(0, cut), parts);
          rest.remove_prefix(cut);
          cuts[style] += rest.empty() ? 0 : 1;
        }
        ASSERT_EQ(parts, whole) << style << ": " << document.substr(0, 200);
      }
    }
  }
  for (const char* style : {"bytes-nfd", "bytes-nfkc", "bytes-nfkd", "bytes-lowercase", "bytes-accents"})
    EXPECT_GT(cuts[style], 50) << style;
  EXPECT_EQ(cuts["bytes-uncased"], 0) << "Strip looks at both ends of the text";
}

// ---- without the oracle

std::vector<uint32_t> ids_of(const std::string& file, std::string_view text) {
  const HuggingFaceTokenizer tokenizer(file, "t.json");
  std::vector<uint32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

TEST(Normalizers, InvalidBytesStayInByteLevelTextAndNothingJoinsAcrossThem) {
  const std::string forms[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"};
  for (const std::string& form : forms) {
    const std::string file = test::small_tokenizer_file("<s>", "null", fmt::format(R"({{"type": "{}"}})", form));
    EXPECT_EQ(ids_of(file, "e\xFF\xC3 \xE2\x82"), (std::vector<uint32_t>{'e', 0xFF, 0xC3, ' ', 0xE2, 0x82})) << form;
  }
  const auto strip =
      test::small_tokenizer_file("<s>", "null", R"({"type": "Strip", "strip_left": true, "strip_right": true})");
  EXPECT_EQ(ids_of(strip, " \x80 \xC2\xA0"), (std::vector<uint32_t>{0x80}));
  EXPECT_EQ(ids_of(strip, " \n "), std::vector<uint32_t>{});
}

// Without the mark, white space stands before the newline, and " \n" is one piece only at the end of a text.
TEST(Normalizers, NoCutIsMadeWhereAMarkIsRemoved) {
  Json file = Json::parse(test::small_tokenizer_file("<s>", "null", R"({"type": "StripAccents"})"));
  file["model"]["vocab"]["\u0120\u010A"] = 257;
  file["model"]["merges"].push_back({"\u0120", "\u010A"});
  file["added_tokens"][0]["id"] = 258;
  const HuggingFaceTokenizer tokenizer(file.dump(), "t.json");
  const std::string text = "12345 \u0301\nef1 cd";
  EXPECT_EQ(tokenizer.safe_cut(text, 12), text.size());
  EXPECT_EQ(tokenizer.safe_cut("12345\nef1 cd", 8), 6u);
  std::vector<uint32_t> parts = ids_of(file.dump(), text.substr(0, 9));
  tokenizer.encode(text.substr(9), parts);
  EXPECT_NE(parts, ids_of(file.dump(), text)) << "this cut would be harmless";
}

TEST(Unigram, InvalidBytesAreReplacedAndCounted) {
  const HuggingFaceTokenizer tokenizer(test::small_unigram_file(), "t.json");
  const auto encoder = tokenizer.encoder();
  std::vector<uint32_t> ids;
  encoder->encode(
      "a\xFF\xC3"
      "b",
      ids);
  EXPECT_EQ(ids, (std::vector<uint32_t>{2, 0, 3}));
  EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 2);
}

TEST(Unigram, TheBestSumOfScoresWinsAndUnknownNeighboursAreOneToken) {
  const std::string file = test::small_unigram_file();  // <unk>, U+2581, a -1, b -1, ab -1.5, abb -4
  EXPECT_EQ(ids_of(file, "abb"), (std::vector<uint32_t>{4, 3}));
  EXPECT_EQ(ids_of(file, "ab ?!ab"), (std::vector<uint32_t>{4, 1, 0, 4}));
  EXPECT_EQ(ids_of(file, ""), std::vector<uint32_t>{});
}

// A search forgets what lies behind a border of all paths. Unknown text goes on across such borders.
TEST(Unigram, LongPiecesGiveTheIdsOfTheirParts) {
  const std::string file = test::small_unigram_file();
  for (const size_t count : {4095u, 4096u, 4097u, 50'000u}) {
    std::string text;
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < count; ++i) {
      text += i % 3 == 0 ? "abb" : "ab";
      expected.insert(expected.end(), i % 3 == 0 ? 2 : 1, 4);
      if (i % 3 == 0) expected.back() = 3;
    }
    EXPECT_EQ(ids_of(file, text), expected);
    EXPECT_EQ(ids_of(file, std::string(count, '?') + "a"), (std::vector<uint32_t>{0, 2}));
  }
}

std::string error_of(const std::string& file, const char* pointer, Json value) {
  Json json = Json::parse(file);
  json[Json::json_pointer(pointer)] = std::move(value);
  try {
    HuggingFaceTokenizer(json.dump(), "t.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    return e.why().find("trie") == std::string::npos && e.why().find("4 bytes") == std::string::npos
               ? e.message()
               : fmt::format("{} ({})", e.message(), e.why());
  }
  return "";
}

TEST(Normalizers, WhatHearthDoesNotReadIsRefusedByItsPlace) {
  const auto with = [](Json normalizer) {
    return error_of(test::small_tokenizer_file(), "/normalizer", std::move(normalizer));
  };
  EXPECT_EQ(with({{"type", "ByteLevel"}}), "t.json: normalizer is a \"ByteLevel\", which Hearth does not read");
  EXPECT_EQ(with({{"type", "BertNormalizer"}, {"lowercase", "yes"}}),
            "t.json: normalizer.lowercase is \"yes\", not true or false");
  EXPECT_EQ(with({{"type", "NFKC"}, {"x", 1}}), "t.json: normalizer has \"x\", which Hearth does not know");
  EXPECT_EQ(with({{"type", "Strip"}, {"strip_left", true}}),
            "t.json: normalizer.strip_right is null, not true or false");
  EXPECT_EQ(with({{"type", "Precompiled"}, {"precompiled_charsmap", nullptr}}),
            "t.json: normalizer.precompiled_charsmap is null, not a text");
  EXPECT_EQ(with({{"type", "Precompiled"}, {"precompiled_charsmap", "a"}}),
            "t.json: normalizer.precompiled_charsmap is not base64");
  EXPECT_EQ(with({{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
            "t.json: normalizer.precompiled_charsmap is no map of SentencePiece (it has fewer than 4 bytes)");
  EXPECT_EQ(
      with({{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAAAA"}}),
      "t.json: normalizer.precompiled_charsmap is no map of SentencePiece (its trie has 8 bytes, and 2 bytes follow)");
  EXPECT_EQ(
      with({{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAAA="}}),
      "t.json: normalizer.precompiled_charsmap is no map of SentencePiece (its trie refers to a place behind its end)");
  EXPECT_EQ(with({{"type", "Replace"}, {"pattern", {{"Regex", "a"}, {"String", "a"}}}, {"content", ""}}),
            "t.json: normalizer.pattern is both a text and a regular expression");
  EXPECT_NE(with({{"type", "Replace"}, {"pattern", {{"Regex", "(?i:ss)"}}}, {"content", ""}}), "");
}

TEST(WordPiece, TheLongestTokensAreTakenFromTheLeftAndABadWordIsUnknownAsAWhole) {
  const std::string file = test::small_word_file();
  EXPECT_EQ(ids_of(file, "abba a.b"), (std::vector<uint32_t>{7, 6, 4, 3, 8, 5}));
  EXPECT_EQ(ids_of(file, "aaaaa aaaaaa abcb b"), (std::vector<uint32_t>{3, 4, 4, 4, 4, 2, 2, 5}));
  EXPECT_EQ(ids_of(file, "\u00e9\u00e9\u00e9\u00e9\u00e9"), (std::vector<uint32_t>{9, 10, 10, 10, 10}))
      << "a character counts once";
  EXPECT_EQ(ids_of(file, " \n"), std::vector<uint32_t>{});
  const HuggingFaceTokenizer tokenizer(file, "t.json");
  EXPECT_EQ(tokenizer.decode_all(std::vector<uint32_t>{7, 6, 3, 8}), "abb a.");
  EXPECT_EQ(tokenizer.decode_all(std::vector<uint32_t>{6, 6}), "##bb");
  EXPECT_EQ(tokenizer.file_tokens().bos, 0u);
  EXPECT_EQ(tokenizer.file_tokens().eos, 1u);
}

TEST(WordPiece, AWrongFileIsRefusedByItsPlace) {
  const auto with = [](const char* pointer, Json value) {
    return error_of(test::small_word_file(), pointer, std::move(value));
  };
  EXPECT_EQ(with("/model/unk_token", "<unk>"), "t.json: model.unk_token is \"<unk>\", which is not in the vocabulary");
  EXPECT_EQ(with("/model/dropout", 0.1), "t.json: model has \"dropout\", which Hearth does not know");
  EXPECT_EQ(with("/model/vocab/a", 5), "t.json: model.vocab has two tokens of id 5");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "ByteLevel"}}),
            "t.json: model is a WordPiece model, but pre_tokenizer has ByteLevel");
  EXPECT_EQ(with("/decoder", {{"type", "Fuse"}}), "t.json: decoder is a \"Fuse\", which Hearth does not read");
  EXPECT_EQ(with("/decoder/prefix", ""), "t.json: decoder.prefix is empty");
  EXPECT_EQ(with("/post_processor/cls", {"[CLS]"}), "t.json: post_processor.cls is not a token with its id");
}

TEST(Unigram, AWrongModelIsRefusedByItsPlace) {
  const auto with = [](const char* pointer, Json value) {
    return error_of(test::small_unigram_file(), pointer, std::move(value));
  };
  EXPECT_EQ(with("/model/unk_id", nullptr), "t.json: model.unk_id is not set");
  EXPECT_EQ(with("/model/unk_id", 9), "t.json: model.unk_id is 9, but vocab has 6 tokens");
  EXPECT_EQ(with("/model/alpha", 0.1), "t.json: model has \"alpha\", which Hearth does not know");
  EXPECT_EQ(with("/model/vocab", Json::object()), "t.json: model.vocab is not a list of tokens with scores");
  EXPECT_EQ(with("/model/vocab/1", {"a"}), "t.json: model.vocab[1] is not a token with a score: [\"a\", -1.5]");
  EXPECT_EQ(with("/model/vocab/1", {"a", 0}), "t.json: model.vocab[2] repeats an earlier token");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "ByteLevel"}}),
            "t.json: model is a Unigram model, but pre_tokenizer has ByteLevel");
  EXPECT_EQ(with("/decoder", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}}),
            "t.json: decoder.pattern.Regex is a regular expression");
}

}  // namespace
}  // namespace hearth::tokenizer
