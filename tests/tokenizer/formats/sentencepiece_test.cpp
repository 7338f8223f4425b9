// SPDX-License-Identifier: Apache-2.0
// SentencePiece models compared with the library's own Python package.
#include "tokenizer/formats/sentencepiece.h"

#include <gmock/gmock.h>
#include <fstream>

#include "base/error.h"
#include "tokenizer/reference.h"

namespace hearth::tokenizer {
namespace {

using testing::HasSubstr;

void expect_same(const Path& folder, const std::string& style) {
  SCOPED_TRACE(style);
  const auto documents = test::read_texts(folder / "documents.bin");
  const auto tokenizer = open_tokenizer((folder / style).string());
  ASSERT_EQ(tokenizer->kind(), "sentencepiece");
  const auto ids = test::read_ids(folder / style / "plain.bin");
  const auto encoder = tokenizer->encoder();
  test::expect_same_ids(*encoder, documents, ids);
  EXPECT_GT(encoder->counts().special_text_seen, 0);
  const auto decoded = test::read_texts(folder / style / "decoded.bin");
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(tokenizer->decode_all(ids[i]), decoded[i]) << "document " << i;
}

TEST(SentencePiece, IdsAndTextEqualTheLibrarysForBpeAndModelsWithOwnSymbols) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("sentencepiece");
  const auto styles = test::styles_in(folder);
  EXPECT_EQ(styles, (std::vector<std::string>{"bpe", "symbols", "unigram"}));
  for (const char* style : {"bpe", "symbols"}) expect_same(folder, style);
}

// Among segmentations of equal score the choice depends on the library's version (0.1.97, 0.2.0 and 0.2.3 all differ).
// The test compares the scores and the text.
TEST(SentencePiece, UnigramSegmentationsAreAsGoodAsTheLibrarysAndMostlyTheSame) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("sentencepiece"), unigram = folder / "unigram";
  const auto documents = test::read_texts(folder / "documents.bin");
  const auto ids = test::read_ids(unigram / "plain.bin");
  const auto decoded = test::read_texts(unigram / "decoded.bin");
  std::vector<double> scores;
  std::ifstream lines(unigram / "scores.txt");
  for (double score = 0; lines >> score;) scores.push_back(score);
  const auto tokenizer = open_tokenizer(unigram.string());
  ASSERT_EQ(static_cast<int64_t>(scores.size()), tokenizer->vocab_size());
  const auto score_of = [&](const std::vector<uint32_t>& row) {
    double sum = 0;
    for (const uint32_t id : row) sum += scores[id];
    return sum;
  };
  size_t same = 0, all = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    std::vector<uint32_t> ours;
    tokenizer->encode(documents[i], ours);
    ASSERT_EQ(ours.size(), ids[i].size());
    ASSERT_NEAR(score_of(ours), score_of(ids[i]), 1e-6 * static_cast<double>(ours.size() + 1));
    ASSERT_EQ(tokenizer->decode_all(ours), decoded[i]);
    for (size_t k = 0; k < ours.size(); ++k) same += ours[k] == ids[i][k] ? 1 : 0;
    all += ours.size();
  }
  EXPECT_GT(static_cast<double>(same), 0.98 * static_cast<double>(all));
}

TEST(SentencePiece, IdsAndTextEqualTheLibrarysForMistralsModels) {
  HEARTH_NEEDS_ORACLE();
  const Path folder = test::reference_folder("mistral");
  const auto styles = test::styles_in(folder);
  EXPECT_GE(styles.size(), 5u);
  for (const std::string& style : styles) expect_same(folder, style);
}

TEST(SentencePiece, BosAndEosComeFromTheFile) {
  HEARTH_NEEDS_ORACLE();
  const auto tokenizer = open_tokenizer((test::reference_folder("sentencepiece") / "bpe").string());
  EXPECT_EQ(tokenizer->bos(), 1u);
  EXPECT_EQ(tokenizer->eos(), 2u);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->name(), "tokenizer.model");
  std::string text;
  tokenizer->decode(1, text);
  EXPECT_EQ(text, "");
  tokenizer->decode(3 + 0x41, text);  // byte pieces follow <unk>, <s>, </s>
  EXPECT_EQ(text, "A");
}

TEST(SentencePiece, BytesThatAreNoUtf8BecomeReplacementCharactersAndAreCounted) {
  HEARTH_NEEDS_ORACLE();
  const auto tokenizer = open_tokenizer((test::reference_folder("sentencepiece") / "bpe").string());
  const auto encoder = tokenizer->encoder();
  std::vector<uint32_t> ids;
  encoder->encode("a\xFF\xC3 b", ids);
  EXPECT_EQ(encoder->counts().invalid_bytes_replaced, 2);
  EXPECT_EQ(tokenizer->decode_all(ids), "a\xEF\xBF\xBD\xEF\xBF\xBD b");
}

TEST(SentencePiece, AFileThatIsCutShortIsAUserError) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string good = read_file(test::reference_folder("sentencepiece") / "bpe" / "tokenizer.model");
  write_file_atomic(scratch / "cut.model", good.substr(0, good.size() / 2));
  try {
    open_tokenizer((scratch / "cut.model").string());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr("cut.model is no SentencePiece model")) << e.what();
  }
}

TEST(SentencePiece, WhereTheSharedObjectIsNotOrIsOfAnotherBuildOneErrorSaysSo) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  std::filesystem::copy_file(test::hearth_binary(), scratch / "hearth");
  const std::string line = fmt::format("{} tokenizer info --tokenizer {}", (scratch / "hearth").string(),
                                       (test::reference_folder("sentencepiece") / "bpe" / "tokenizer.model").string());
  const test::CommandResult alone = test::run_command(line);
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.output,
              HasSubstr("error: SentencePiece models cannot be read here\n  why: libhearth_sentencepiece.so is "
                        "not in the program's folder\n  fix: copy it"))
      << alone.output;
  write_file_atomic(scratch / "other.c", "void* hearth_open_sentencepiece(void) { return 0; }\n");
  const test::CommandResult built = test::run_command(fmt::format(
      "cc -shared -fPIC -o {} {}", (scratch / "libhearth_sentencepiece.so").string(), (scratch / "other.c").string()));
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const test::CommandResult other = test::run_command(line);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("libhearth_sentencepiece.so belongs to another build than this program\n"))
      << other.output;
}

TEST(SentencePiece, ParsingSpecialTextIsRefused) {
  HEARTH_NEEDS_ORACLE();
  const auto tokenizer = open_tokenizer((test::reference_folder("sentencepiece") / "bpe").string());
  try {
    tokenizer->encoder(SpecialText::kParse);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "a SentencePiece model does not parse special tokens in a text");
  }
}

}  // namespace
}  // namespace hearth::tokenizer
