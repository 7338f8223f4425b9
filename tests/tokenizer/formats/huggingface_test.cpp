// SPDX-License-Identifier: Apache-2.0
// tokenizer.json compared with the library `tokenizers`, id by id.
#include "tokenizer/formats/huggingface.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/mixed_text.h"
#include "tokenizer/reference.h"
#include "tokenizer/small_file.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

const Path& folder() {
  static const Path made = test::reference_folder("huggingface");
  return made;
}

TEST(HuggingFace, IdsEqualTokenizersForEveryStyleWithSpecialTextPlainAndParsed) {
  HEARTH_NEEDS_ORACLE();
  const auto documents = test::read_texts(folder() / "documents.bin");
  ASSERT_GT(documents.size(), 100u);
  const std::vector<std::string> styles = test::styles_in(folder());
  ASSERT_EQ(styles.size(), 15u);
  for (const std::string& style : styles) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto plain = test::read_ids(folder() / style / "plain.bin"),
               parsed = test::read_ids(folder() / style / "parsed.bin");
    EXPECT_NE(plain, parsed) << "no special token stands in the documents";
    const auto encoder = tokenizer->encoder(), parser = tokenizer->encoder(SpecialText::kParse);
    test::expect_same_ids(*encoder, documents, plain);
    test::expect_same_ids(*parser, documents, parsed);
    EXPECT_GT(encoder->counts().special_text_seen, 0);
    EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 0);
    test::expect_same_ids(*encoder, documents, plain);  // with a warm cache
  }
}

// Documents of all scripts, emoji and white space. No tokenizer was trained on most of their words.
std::vector<std::string> mixed_documents(uint64_t seed, size_t bytes) {
  test::MixedText text(seed);
  std::vector<std::string> documents;
  for (size_t made = 0; made < bytes; made += documents.back().size()) documents.push_back(text.make(20'000));
  return documents;
}

TEST(HuggingFace, IdsEqualTokenizersOnThreeMegabytesOfMixedText) {
  HEARTH_NEEDS_ORACLE();
  const auto documents = mixed_documents(41, 3'000'000);
  for (const char* style : {"llama3", "qwen2", "llama2", "gemma"}) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto encoder = tokenizer->encoder(), uncached = tokenizer->encoder_without_cache();
    const auto expected = test::ids_of_reference(folder() / style, documents);
    test::expect_same_ids(*encoder, documents, expected);
    test::expect_same_ids(*uncached, documents, expected);
  }
}

TEST(HuggingFace, DecodingEqualsTokenizers) {
  HEARTH_NEEDS_ORACLE();
  for (const std::string& style : test::styles_in(folder())) {
    SCOPED_TRACE(style);
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto ids = test::read_ids(folder() / style / "plain.bin");
    const auto decoded = test::read_texts(folder() / style / "decoded.bin");
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(tokenizer->decode_all(ids[i]), decoded[i]) << "document " << i;
  }
}

TEST(HuggingFace, BytesThatAreNoUtf8ComeBackFromByteLevelAndAreReplacedAndCountedElsewhere) {
  HEARTH_NEEDS_ORACLE();
  std::string text = "ab \xFF\xC3 \xE2\x82 cd\x80";
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  for (const char* style : {"gpt2", "llama3", "qwen2", "deepseek", "neox"}) {
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto encoder = tokenizer->encoder();
    std::vector<uint32_t> ids;
    encoder->encode(text, ids);
    EXPECT_EQ(tokenizer->decode_all(ids), text) << style;
    EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 0);
  }
  // The last two lack tokens for 13 bytes.
  for (const char* style : {"llama2", "pythia", "modernbert"}) {
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto encoder = tokenizer->encoder();
    std::vector<uint32_t> ids, valid;
    encoder->encode("a\xFF\xC3 b", ids);
    encoder->encode("a\xEF\xBF\xBD\xEF\xBF\xBD b", valid);
    EXPECT_EQ(ids, valid) << style;
    EXPECT_EQ(tokenizer->decode_all(ids), "a\xEF\xBF\xBD\xEF\xBF\xBD b") << style;
    EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 2) << style;
  }
}

TEST(HuggingFace, CuttingWhereItIsSafeGivesTheSameIds) {
  HEARTH_NEEDS_ORACLE();
  const auto documents = test::read_texts(folder() / "documents.bin");
  int cuts = 0;
  for (const std::string& style : test::styles_in(folder())) {
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto encoder = tokenizer->encoder();
    for (const std::string& document : documents) {
      std::vector<uint32_t> whole, parts;
      encoder->encode(document, whole);
      std::string_view rest = document;
      while (!rest.empty()) {
        const size_t cut = tokenizer->safe_cut(rest, std::min<size_t>(rest.size(), 100));
        ASSERT_GT(cut, 0u);
        ASSERT_LE(cut, rest.size());
        encoder->encode(rest.substr(0, cut), parts);
        rest.remove_prefix(cut);
        cuts += rest.empty() ? 0 : 1;
      }
      ASSERT_EQ(parts, whole) << style << ": " << document.substr(0, 200);
    }
  }
  EXPECT_GT(cuts, 300);
}

TEST(HuggingFace, CuttingATextThatIsNoUtf8GivesTheSameIds) {
  HEARTH_NEEDS_ORACLE();
  for (const char* style : {"gpt2", "pythia", "modernbert"}) {
    const auto tokenizer = open_tokenizer((folder() / style).string());
    const auto encoder = tokenizer->encoder();
    std::string document;
    for (int i = 0; document.size() < 20'000; ++i) document += fmt::format("It's the {}th caf\u00e9,\n", i);
    for (size_t at = 3000; at < document.size(); at += 977) document[at] = static_cast<char>(0xF5 + at % 11);
    std::vector<uint32_t> whole, parts;
    encoder->encode(document, whole);
    std::string_view rest = document;
    int cuts = 0;
    while (!rest.empty()) {
      const size_t cut = tokenizer->safe_cut(rest, std::min<size_t>(rest.size(), 300));
      encoder->encode(rest.substr(0, cut), parts);
      rest.remove_prefix(cut);
      ++cuts;
    }
    EXPECT_EQ(parts, whole) << style;
    EXPECT_GT(cuts, 3) << style;
  }
}

TEST(HuggingFace, TheTemplateDecidesBosAndTheUsualNamesDecideEos) {
  HEARTH_NEEDS_ORACLE();
  const auto llama3 = open_tokenizer((folder() / "llama3").string());
  EXPECT_TRUE(llama3->adds_bos());
  EXPECT_EQ(llama3->bos(), llama3->special_tokens()[4].id);
  EXPECT_EQ(llama3->special_tokens()[4].text, "<|begin_of_text|>");
  EXPECT_EQ(llama3->eos(), llama3->special_tokens()[0].id);
  EXPECT_EQ(llama3->special_tokens()[0].text, "<|endoftext|>");
  const auto llama2 = open_tokenizer((folder() / "llama2" / "tokenizer.json").string());
  EXPECT_EQ(llama2->bos(), 1u);
  EXPECT_EQ(llama2->eos(), 2u);
  const auto neox = open_tokenizer((folder() / "neox").string());
  EXPECT_FALSE(neox->adds_bos());
  EXPECT_EQ(neox->bos(), std::nullopt);
  EXPECT_EQ(neox->eos(), 0u);
}

// ---- wrong files, without the oracle

Json small_file() { return Json::parse(test::small_tokenizer_file()); }

std::string error_of(const Json& file) {
  try {
    HuggingFaceTokenizer(file.dump(), "t.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    return e.message();
  }
  return "";
}

TEST(HuggingFaceFile, AGoodOneIsReadAndGivesIds) {
  const HuggingFaceTokenizer tokenizer(small_file().dump(), "t.json");
  std::vector<uint32_t> ids;
  tokenizer.encode("ab <s>", ids);
  EXPECT_EQ(ids, (std::vector<uint32_t>{256, ' ', '<', 's', '>'}));
  EXPECT_EQ(tokenizer.vocab_size(), 258);
}

TEST(HuggingFaceFile, WhatHearthDoesNotReadIsRefusedByItsPlace) {
  const auto with = [](const char* pointer, Json value) {
    Json file = small_file();
    file[Json::json_pointer(pointer)] = std::move(value);
    return error_of(file);
  };
  EXPECT_EQ(with("/extra", 1), "t.json: the file has \"extra\", which Hearth does not know");
  EXPECT_EQ(with("/truncation", Json::object()), "t.json: truncation is set");
  EXPECT_EQ(with("/padding", Json::object()), "t.json: padding is set");
  EXPECT_EQ(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "ByteLevel"}}}}}),
            "t.json: normalizer.normalizers[0] is a \"ByteLevel\", which Hearth does not read");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "Whitespace"}}),
            "t.json: pre_tokenizer is a \"Whitespace\", which Hearth does not read");
  EXPECT_EQ(with("/pre_tokenizer/trim", true), "t.json: pre_tokenizer has \"trim\", which Hearth does not know");
  EXPECT_EQ(with("/pre_tokenizer",
                 {{"type", "Sequence"}, {"pretokenizers", {small_file()["pre_tokenizer"], {{"type", "Digits"}}}}}),
            "t.json: pre_tokenizer.pretokenizers[1] comes after ByteLevel");
  EXPECT_EQ(with("/pre_tokenizer", nullptr),
            "t.json: model.byte_fallback is not true, and pre_tokenizer has no ByteLevel");
  EXPECT_EQ(with("/post_processor", {{"type", "RobertaProcessing"}}),
            "t.json: post_processor is a \"RobertaProcessing\", which Hearth does not read");
  EXPECT_EQ(with("/decoder", {{"type", "WordPiece"}}),
            "t.json: decoder is a \"WordPiece\", which Hearth does not read");
  EXPECT_EQ(with("/model/type", "WordLevel"), "t.json: model is a \"WordLevel\", which Hearth does not read");
  EXPECT_EQ(with("/model/dropout", 0.1), "t.json: model.dropout is set");
  EXPECT_EQ(with("/model/end_of_word_suffix", "</w>"),
            "t.json: model.end_of_word_suffix is set, which Hearth does not read");
  EXPECT_EQ(with("/model/vocab/a", "x"), "t.json: model.vocab.a is \"x\", not a token id");
  EXPECT_EQ(with("/model/vocab/a", 98), "t.json: model.vocab has two tokens of id 98");
  EXPECT_EQ(with("/model/vocab/a", 4000000000), "t.json: model.vocab has 257 tokens, but ids up to 4000000000");
  EXPECT_EQ(with("/model/merges/0", "a"), "t.json: model.merges[0] is not two tokens: [\"a\", \"b\"] or \"a b\"");
  EXPECT_EQ(with("/model/merges/0", {"a", "c"}),
            "t.json: model.merges[0] uses or makes a token that is not in the vocabulary");
  EXPECT_EQ(with("/added_tokens/0/id", 300), "t.json: added_tokens[0].id is 300, but tokenizers would use 257");
  EXPECT_EQ(with("/added_tokens/0/content", ""), "t.json: added_tokens[0].content is empty");
  EXPECT_EQ(with("/added_tokens/0/special", 1), "t.json: added_tokens[0].special is 1, not true or false");
  Json file = small_file();
  file["model"]["vocab"].erase("b");
  file["model"]["merges"] = Json::array();
  EXPECT_EQ(error_of(file), "t.json: model.vocab has no token for byte 0x62");
  EXPECT_EQ(error_of(Json::array()), "t.json: the file is [], not an object");
  // 0xF4 begins the last characters of Unicode, and 0xF5 none.
  const auto without = [](const char* letter) {
    Json other = small_file();
    other["model"]["vocab"].erase(letter);
    other["added_tokens"][0]["id"] = 256;
    return error_of(other);
  };
  EXPECT_EQ(without("\u00f4"), "t.json: model.vocab has no token for byte 0xF4");
  EXPECT_EQ(without("\u00c2"), "t.json: model.vocab has no token for byte 0xC2");
  for (const char* letter : {"\u00c0", "\u00c1", "\u00f5", "\u00ff"}) EXPECT_EQ(without(letter), "") << letter;
}

TEST(HuggingFaceFile, ATemplateOfSeveralTokensIsRefused) {
  Json file = small_file();
  const Json s = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {s, s, a}},
                            {"pair", Json::array()},
                            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {257}}, {"tokens", {"<s>"}}}}}}};
  EXPECT_EQ(error_of(file), "t.json: post_processor.single puts several tokens before a text");
  file["post_processor"]["single"] = {s, a, s};
  const HuggingFaceTokenizer tokenizer(file.dump(), "t.json");
  EXPECT_EQ(tokenizer.file_tokens(), (DocumentTokens{257, 257}));
}

}  // namespace
}  // namespace hearth::tokenizer
