// SPDX-License-Identifier: Apache-2.0
// Training compared with `tokenizers`: the same merges from the same text, and a file that both read alike.
#include "tokenizer/bpe/train.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "support/environment.h"
#include "support/python.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {
namespace {

PieceCounts count_pieces(std::string_view text, std::string_view pattern) {
  PieceCounts counts;
  for (const std::string_view piece : Pretokenizer({{std::string(pattern)}}).pieces(text)) counts.add(piece);
  return counts;
}

// Some of Python's standard library: English, code, and a little of other scripts.
std::string python_sources() {
  std::string text;
  const test::CommandResult found = test::run_command(
      "/usr/bin/python3 -c 'import sysconfig, glob; print(\"\\n\".join(sorted(glob.glob("
      "sysconfig.get_paths()[\"stdlib\"] + \"/[a-h]*.py\"))))'");
  std::istringstream lines(found.output);
  for (std::string path; std::getline(lines, path);) text += read_file(path);
  return text +
         "Ein sch\u00F6ner Tag; \u4F60\u597D\uFF0C\u4E16\u754C \U0001F469\u200D\U0001F469\u200D\U0001F467 "
         "\u0440\u0443\u0301\u0441\u0441\u043A\u0438\u0439 \u044F\u0437\u044B\u043A\n";
}

// Few letters, so counts are often equal; long runs, where pairs overlap.
std::string ties() {
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    const auto letter = static_cast<char>("abcde  "[random() % 7]);
    text.append(random() % 40 == 0 ? random() % 24 : 1, letter);
  }
  return text;
}

using Json = nlohmann::ordered_json;

class TrainBpe : public testing::Test {
 protected:
  // Trains both ways and compares vocabulary and merges. Then compares our ids of `other` with theirs, from our file.
  void compare(const std::string& text, const std::string& other, int64_t vocab_size, std::string_view pattern) {
    const std::vector<std::string> special = {"<|begin_of_text|>", "<|end_of_text|>", "<pad>"};
    const TrainedBpe bpe =
        train_bpe(count_pieces(text, pattern), {vocab_size, special, std::string(pattern), 2}, nullptr);
    write_file_atomic(scratch_ / "ours.json", huggingface_file(bpe));
    write_file_atomic(scratch_ / "text", text);
    write_file_atomic(scratch_ / "pattern", pattern);
    const test::CommandResult trained = test::run_python(fmt::format(
        "{} train {} {} {} {} '{}'", kReference, (scratch_ / "text").string(), (scratch_ / "theirs.json").string(),
        vocab_size, (scratch_ / "pattern").string(), fmt::join(special, "' '")));
    ASSERT_EQ(trained.exit_code, 0) << trained.output;

    const Json ours = Json::parse(read_file(scratch_ / "ours.json"));
    const Json theirs = Json::parse(read_file(scratch_ / "theirs.json"));
    EXPECT_EQ(ours["model"]["merges"].size(), theirs["model"]["merges"].size());
    for (size_t i = 0; i < ours["model"]["merges"].size(); ++i)
      ASSERT_EQ(ours["model"]["merges"][i], theirs["model"]["merges"][i]) << "merge " << i;
    // Compared as maps: the order of ids in `tokenizers`' file does not matter.
    EXPECT_EQ(nlohmann::json::parse(ours["model"]["vocab"].dump()),
              nlohmann::json::parse(theirs["model"]["vocab"].dump()));

    write_file_atomic(scratch_ / "other", other);
    const test::CommandResult encoded = test::run_python(
        fmt::format("{} encode {} {}", kReference, (scratch_ / "ours.json").string(), (scratch_ / "other").string()));
    ASSERT_EQ(encoded.exit_code, 0) << encoded.output;
    std::istringstream numbers(encoded.output);
    std::vector<uint32_t> expected, ids;
    for (uint32_t id; numbers >> id;) expected.push_back(id);
    const auto tokenizer = open_tokenizer((scratch_ / "ours.json").string());
    tokenizer->encode(other, ids);
    EXPECT_EQ(ids, expected);
    EXPECT_GT(ids.size(), 100u);
    EXPECT_EQ(tokenizer->decode_all(ids), other);
    EXPECT_EQ(tokenizer->bos(), 0u);
    EXPECT_EQ(tokenizer->eos(), 1u);
  }

  static constexpr std::string_view kReference = "tests/tokenizer/bpe/train_reference.py";
  test::ScratchFolder scratch_;
};

TEST_F(TrainBpe, OnRealTextTheMergesAreThoseOfTokenizers) {
  HEARTH_NEEDS_ORACLE();
  const std::string text = python_sources();
  ASSERT_GT(text.size(), 1'000'000u);
  compare(text, text.substr(0, 200'000) + "<|end_of_text|> \u017F 12345", 6000, kLlama3Pattern);
}

TEST_F(TrainBpe, AmongEqualCountsAndRunsTheMergesAreThoseOfTokenizers) {
  HEARTH_NEEDS_ORACLE();
  const std::string text = ties();
  compare(text, text.substr(0, 5000), 1200, kGpt2Pattern);
}

TEST_F(TrainBpe, CountsAddUpWhateverTheOrder) {
  PieceCounts a, b, both;
  for (const char* piece : {"x", "yy", "x"}) a.add(piece), both.add(piece);
  for (const char* piece : {"yy", "z"}) b.add(piece), both.add(piece);
  PieceCounts other_way = b;
  other_way.add(a);
  a.add(b);
  EXPECT_EQ(a.sorted(), both.sorted());
  EXPECT_EQ(other_way.sorted(), both.sorted());
  EXPECT_EQ(a.bytes(), 7);
  ASSERT_EQ(a.sorted().size(), 3u);
  EXPECT_EQ(a.sorted()[0], (std::pair<std::string_view, int64_t>("x", 2)));
}

TEST_F(TrainBpe, ItEndsWhereNoPairIsFrequentEnough) {
  PieceCounts counts;
  counts.add("abab", 1);
  counts.add("cd", 3);
  const auto merges = [&](int64_t min_frequency) {
    return train_bpe(counts, {1000, {}, "x", min_frequency}, nullptr).merges.size();
  };
  EXPECT_EQ(merges(4), 0u);
  EXPECT_EQ(merges(3), 1u);  // cd
  EXPECT_EQ(merges(2), 2u);  // ab twice
  EXPECT_EQ(merges(1), 3u);  // abab
}

TEST_F(TrainBpe, ATextThatSpellsASpecialTokenNeverBecomesIt) {
  PieceCounts counts;
  counts.add("pad", 100);
  const TrainedBpe bpe = train_bpe(counts, {1000, {"pad"}, std::string(kGpt2Pattern), 2}, nullptr);
  EXPECT_EQ(bpe.merges.size(), 1u);  // "pa" or "ad", without further merges
  write_file_atomic(scratch_ / "t.json", huggingface_file(bpe));
  std::vector<uint32_t> ids;
  open_tokenizer((scratch_ / "t.json").string())->encode("pad", ids);
  EXPECT_EQ(ids.size(), 2u);
}

TEST_F(TrainBpe, WrongRequestsAreRefused) {
  const auto why = [](int64_t vocab_size, std::vector<std::string> special) -> std::string {
    try {
      train_bpe({}, {vocab_size, std::move(special), "x", 2}, nullptr);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kUser);
      return e.why();
    }
    return "accepted";
  };
  EXPECT_EQ(why(257, {"<eos>"}), "accepted");
  EXPECT_EQ(why(256, {"<eos>"}), "256 bytes and 1 special tokens need 257");
  EXPECT_EQ(why(300, {"<eos>", "<eos>"}), "it is given twice");
  EXPECT_EQ(why(300, {"x"}), "it is spelled like a byte");
  EXPECT_EQ(why(300, {""}), "it is empty");
}

}  // namespace
}  // namespace hearth::tokenizer
