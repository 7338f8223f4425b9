// SPDX-License-Identifier: Apache-2.0
#include "data/study/ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using namespace std::string_literals;
using test::ScratchFolder;

TEST(Ngram, EveryOrderEqualsTheFormulaComputedWithDictionaries) {
  const ScratchFolder scratch;
  std::vector<std::string> train, validation;
  for (uint64_t i = 0; i < 12; ++i) train.push_back(words(i, static_cast<int64_t>(300 + 40 * i)));
  train.push_back("\x00\xff\x00\xff\x01 zero and the last byte \xff"s);
  train.emplace_back("x");
  for (uint64_t i = 0; i < 4; ++i) validation.push_back(words(100 + i, 200));
  validation.push_back("\x00\xff never seen \xfe\x00 here"s);
  validation.emplace_back("q");
  for (size_t i = 0; i < train.size(); ++i) write_text(scratch / "train" / std::to_string(i), train[i]);
  for (size_t i = 0; i < validation.size(); ++i) write_text(scratch / "held" / std::to_string(i), validation[i]);
  const auto run =
      test::run_command(fmt::format("python3 {} {} {} {}", test::source_path("tests/data/study/ngram_reference.py"),
                                    kMaxNgramOrder, (scratch / "train").string(), (scratch / "held").string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::istringstream expected(run.output);

  const NgramScores scores =
      score_ngrams({train.begin(), train.end()}, {validation.begin(), validation.end()}, kMaxNgramOrder);
  ASSERT_EQ(scores.bits_per_byte.size(), static_cast<size_t>(kMaxNgramOrder));
  for (const double bits : scores.bits_per_byte) {
    double value = 0;
    ASSERT_TRUE(expected >> value);
    EXPECT_NEAR(bits, value, 1e-12 * value);
  }
  EXPECT_EQ(scores.validation_bytes, 4 * 200 + 21 + 1);
}

TEST(Ngram, NothingLearntCostsEightBitsAByte) {
  const NgramScores scores = score_ngrams({}, {"abc"}, 3);
  for (const double bits : scores.bits_per_byte) EXPECT_DOUBLE_EQ(bits, 8);
}

// One byte seen once: P(a) = (1 + 1/256) / 2 by the formula.
TEST(Ngram, OneByteByHand) {
  EXPECT_DOUBLE_EQ(score_ngrams({"a"}, {"a"}, 1).bits_per_byte[0], -std::log2((1 + 1.0 / 256) / 2));
  EXPECT_DOUBLE_EQ(score_ngrams({"a"}, {"b"}, 1).bits_per_byte[0], -std::log2((0 + 1.0 / 256) / 2));
}

TEST(Ngram, ADatasetIsScoredByItsTextWithoutSpecialTokens) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 40);
  BuildRules rules;
  rules.validation = 0.3;
  rules.bos = true;
  build(scratch / "out", {scratch / "text"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  const auto tokenizer = dataset.open_tokenizer();
  std::vector<std::string> texts[2];
  for (int s = 0; s < 2; ++s) {
    const Split& split = dataset.split(s == 0 ? "train" : "validation");
    for (int64_t i = 0; i < split.documents(); ++i)
      texts[s].push_back(read_file(dataset.manifest().sources[static_cast<size_t>(split.origin(i).source)].path));
  }
  const NgramScores direct = score_ngrams({texts[0].begin(), texts[0].end()}, {texts[1].begin(), texts[1].end()}, 5);
  const NgramScores scores = score_ngrams({&dataset.split("train")}, dataset.split("validation"), *tokenizer, 5);
  EXPECT_EQ(scores.bits_per_byte, direct.bits_per_byte);
  EXPECT_EQ(scores.train_bytes, dataset.split("train").text_bytes());
  EXPECT_EQ(scores.validation_bytes, dataset.split("validation").text_bytes());

  const int64_t half = scores.train_bytes / 2;
  const NgramScores thinned = score_ngrams({&dataset.split("train")}, dataset.split("validation"), *tokenizer, 5, half);
  EXPECT_NEAR(static_cast<double>(thinned.train_bytes), static_cast<double>(half), 0.2 * static_cast<double>(half));
}

TEST(Ngram, AnOrderOutOfRangeIsAUserError) {
  for (const int64_t order : {int64_t{0}, kMaxNgramOrder + 1})
    EXPECT_EQ(error_of([&] { score_ngrams({"a"}, {"a"}, order); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::data
