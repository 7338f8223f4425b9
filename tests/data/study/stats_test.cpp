// SPDX-License-Identifier: Apache-2.0
#include "data/study/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

// Documents cut from one file at its line ends: two equal lines are two equal documents.
Dataset lines(const test::ScratchFolder& scratch, const std::string& text, double validation = 0) {
  write_text(scratch / "text" / "lines.txt", text);
  BuildRules rules;
  rules.read.document_bytes = 1;
  rules.validation = validation;
  build(scratch / "out", {scratch / "text"}, rules);
  return Dataset::open(scratch / "out");
}

TEST(Stats, LengthsTokensAndDuplicatesOfAFewLines) {
  const test::ScratchFolder scratch;
  // With EOS: 2, 3, 4, 4, 4, 9 and 3 tokens.
  const auto all = dataset_stats(lines(scratch, "\nb\ncc\ncc\ndd\nabcdefg\nb\n"), 2);
  ASSERT_EQ(all.size(), 1u);
  const SplitStats& s = all[0];
  EXPECT_EQ(s.name, "train");
  EXPECT_EQ(s.documents, 7);
  EXPECT_EQ(s.tokens, 29);
  EXPECT_EQ(s.text_bytes, 22);
  EXPECT_DOUBLE_EQ(s.bytes_per_token(), 22.0 / 29);
  EXPECT_EQ(s.shortest, 2);
  EXPECT_EQ(s.longest, 9);
  ASSERT_EQ(s.lengths.size(), 3u);
  const int64_t expected[3][4] = {{2, 3, 3, 8}, {4, 7, 3, 12}, {8, 15, 1, 9}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(s.lengths[i].least, expected[i][0]);
    EXPECT_EQ(s.lengths[i].most, expected[i][1]);
    EXPECT_EQ(s.lengths[i].documents, expected[i][2]);
    EXPECT_EQ(s.lengths[i].tokens, expected[i][3]);
  }
  EXPECT_EQ(s.duplicates, 2);
  EXPECT_EQ(s.duplicate_tokens, 7);
  EXPECT_EQ(s.token_counts.size(), 258u);
  EXPECT_EQ(s.token_counts['c'], 5);
  EXPECT_EQ(s.token_counts[257], 7);
  EXPECT_EQ(s.used_tokens(), 9);
  EXPECT_EQ(s.most_frequent(4), (std::vector<int64_t>{'\n', 257, 'c', 'b'}));
  EXPECT_EQ(s.most_frequent(100).size(), 9u);
}

TEST(Stats, AHeldOutDocumentThatIsAlsoTrainedOnIsCounted) {
  const test::ScratchFolder scratch;
  const Dataset dataset = lines(scratch, "one\ntwo\n");
  // The same shard in two splits.
  DatasetManifest manifest = dataset.manifest();
  manifest.splits.push_back(manifest.splits[0]);
  manifest.splits[1].name = "validation";
  write_file_atomic(scratch / "out" / std::string(kManifestName), manifest_text(manifest));
  const auto all = dataset_stats(Dataset::open(scratch / "out"), 1);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].in_earlier_splits, 0);
  EXPECT_EQ(all[1].in_earlier_splits, 2);
  EXPECT_EQ(all[1].duplicates, 0);
}

TEST(Stats, EachDocumentOfALaterSplitThatStoodBeforeCountsAndTheCommandSaysHowMany) {
  const test::ScratchFolder scratch;
  write_text(scratch / "text" / "lines.txt", "one\ntwo\nthree\none\na\none\ntwo\n");
  BuildRules rules;
  rules.read.document_bytes = 1;
  rules.shard_tokens = 14;  // two shards: up to "three", and the rest
  build(scratch / "out", {scratch / "text"}, rules);
  DatasetManifest manifest = Dataset::open(scratch / "out").manifest();
  ASSERT_EQ(manifest.splits[0].shards.size(), 2u);
  manifest.splits.push_back(manifest.splits[0]);
  SplitEntry &first = manifest.splits[0], &second = manifest.splits[1];
  first.shards.pop_back();
  second.shards.erase(second.shards.begin());
  second.name = "validation";
  for (SplitEntry* split : {&first, &second}) {
    split->documents = split->shards[0].documents;
    split->tokens = split->shards[0].tokens;
  }
  write_file_atomic(scratch / "out" / std::string(kManifestName), manifest_text(manifest));
  const auto all = dataset_stats(Dataset::open(scratch / "out"), 1);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].documents, 3);
  EXPECT_EQ(all[0].in_earlier_splits, 0);
  EXPECT_EQ(all[1].documents, 4);
  EXPECT_EQ(all[1].duplicates, 1);
  EXPECT_EQ(all[1].in_earlier_splits, 3);
  const std::string command = fmt::format("{} data stats {}", test::hearth_binary(), (scratch / "out").string());
  const std::string text = test::run_command(command).output;
  const std::string overlap = "3 documents also in a split before this one";
  EXPECT_THAT(text, HasSubstr("overlap         " + overlap)) << text;
  EXPECT_EQ(text.find("overlap"), text.rfind("overlap")) << text;
  const std::string page = (scratch / "page.html").string();
  EXPECT_EQ(test::run_command(command + " --plot " + page).exit_code, 0);
  EXPECT_THAT(read_file(page), HasSubstr(overlap));
}

TEST(Stats, ATokenThatIsTheFirstOutsideOfTheVocabularyIsDamage) {
  const test::ScratchFolder scratch;
  DatasetManifest manifest = lines(scratch, "one\n").manifest();
  ASSERT_EQ(manifest.vocab_size, 258);
  manifest.vocab_size = 257;  // and EOS is token 257
  write_file_atomic(scratch / "out" / std::string(kManifestName), manifest_text(manifest));
  const Error e = error_of([&] { dataset_stats(Dataset::open(scratch / "out"), 1); });
  EXPECT_EQ(e.code(), ExitCode::kDamaged);
  EXPECT_EQ(e.message(), "document 0 of split train holds token 257");
  EXPECT_EQ(e.why(), "the vocabulary has 257");
}

TEST(Stats, DocumentsThatDifferInTheirLastTokenAloneAreNoDuplicates) {
  const test::ScratchFolder scratch;
  const auto all = dataset_stats(lines(scratch, "same a\nsame b\nsame a\n"), 1);
  EXPECT_EQ(all[0].duplicates, 1);
  EXPECT_EQ(all[0].duplicate_tokens, 8);
}

TEST(Stats, ALongDocumentIsCountedOnce) {
  const test::ScratchFolder scratch;
  const auto all = dataset_stats(lines(scratch, std::string(150'000, 'a') + "\n"), 1);
  EXPECT_EQ(all[0].token_counts['a'], 150'000);
  EXPECT_EQ(all[0].token_counts[257], 1);
}

TEST(Stats, DocumentsWithoutATokenHaveABinOfTheirOwn) {
  const test::ScratchFolder scratch;
  write_text(scratch / "text" / "lines.jsonl", "{\"text\": \"\"}\n{\"text\": \"a\"}\n{\"text\": \"\"}\n");
  BuildRules rules;
  rules.eos = false;
  build(scratch / "out", {scratch / "text"}, rules);
  const auto all = dataset_stats(Dataset::open(scratch / "out"), 1);
  ASSERT_EQ(all[0].lengths.size(), 2u);
  const LengthBin& empty = all[0].lengths[0];
  EXPECT_EQ(empty.least, 0);
  EXPECT_EQ(empty.most, 0);
  EXPECT_EQ(empty.documents, 2);
  EXPECT_EQ(all[0].lengths[1].least, 1);
}

TEST(Stats, ThreadsDoNotShow) {
  const test::ScratchFolder scratch;
  std::string text;
  for (uint64_t i = 0; i < 5000; ++i) text += words(i % 900, 20 + static_cast<int64_t>(i % 50)) + "\n";
  const Dataset dataset = lines(scratch, text, 0.2);
  const auto one = dataset_stats(dataset, 1), four = dataset_stats(dataset, 4);
  ASSERT_EQ(one.size(), four.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].token_counts, four[i].token_counts);
    EXPECT_EQ(one[i].duplicates, four[i].duplicates);
    EXPECT_EQ(one[i].lengths.size(), four[i].lengths.size());
  }
}

TEST(Stats, ADamagedBlockStops) {
  const test::ScratchFolder scratch;
  const Dataset dataset = lines(scratch, "one\ntwo\n");
  const Path shard = scratch / "out" / dataset.manifest().splits[0].shards[0].file;
  std::string bytes = read_file(shard);
  bytes[130] = static_cast<char>(bytes[130] ^ 1);
  write_text(shard, bytes);
  EXPECT_EQ(error_of([&] { dataset_stats(Dataset::open(scratch / "out"), 2); }).code(), ExitCode::kDamaged);
}

}  // namespace
}  // namespace hearth::data
