// SPDX-License-Identifier: Apache-2.0
// --split: borders by GPT-NeoX's rule, and the documents of each split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/build/merge_parts.h"
#include "data/build/positional_split.h"
#include "data/corpus_folder.h"
#include "data/order/neox_order.h"
#include "support/python.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;
using Borders = std::array<int64_t, 4>;

// `count` documents in three files of lines. The last quarter repeats earlier ones; every fifth is empty.
void write_lines(const Path& folder, int count) {
  std::string lines[3];
  for (int i = 0; i < count; ++i) {
    const std::string text = i % 5 == 4 ? "" : words(static_cast<uint64_t>(i < count * 3 / 4 ? i : i - count / 2), 60);
    lines[i * 3 / count] += nlohmann::json{{"text", text}}.dump() + "\n";
  }
  for (int f = 0; f < 3; ++f) write_text(folder / fmt::format("{}.jsonl", f), lines[f]);
}

BuildRules rules_of(const std::string& split) {
  BuildRules rules;
  rules.split = split;
  rules.shard_tokens = 500;
  return rules;
}

// The documents of the named splits, one split after the other.
std::vector<std::vector<int32_t>> documents_of(const Path& folder, const std::vector<const char*>& names) {
  const Dataset dataset = Dataset::open(folder);
  std::vector<std::vector<int32_t>> documents;
  for (const char* name : names) {
    if (!dataset.has_split(name)) continue;
    const Split& split = dataset.split(name);
    const auto tokens = all_tokens(split);
    for (int64_t i = 0; i < split.documents(); ++i)
      documents.emplace_back(tokens.begin() + split.document_begin(i), tokens.begin() + split.document_begin(i + 1));
  }
  return documents;
}

TEST(PositionalSplit, BordersAreGptNeoxs) {
  EXPECT_EQ(split_borders("969,30,1", 1000), (Borders{0, 969, 999, 1000}));
  EXPECT_EQ(split_borders("969,30,1", 12345), (Borders{0, 11963, 12333, 12345}));
  EXPECT_EQ(split_borders("949,50,1", 10), (Borders{0, 10, 10, 10}));
  HEARTH_NEEDS_ORACLE();
  std::string sizes;
  std::vector<int64_t> counts;
  for (int64_t n = 0; n < 120; ++n) counts.push_back(n < 60 ? n : n * n * 7919);
  for (const int64_t n : counts) sizes += fmt::format(" {}", n);
  for (const std::string split : {"969,30,1", "949/50/1", "1", "0,1", "8,1,1", "98,2", "0.5,0.25,0.25", "1,1,1",
                                  "100,0,3", "0.1,0.2,0.7", "3,2,2", "0,0,5", "7,0,1"}) {
    std::string mine;
    for (const int64_t n : counts) {
      const Borders b = split_borders(parse_split(split), n);
      mine += fmt::format("{} {} {} {}\n", b[0], b[1], b[2], b[3]);
    }
    const auto theirs = test::run_python(fmt::format("tests/data/order/neox_reference.py borders {}{}", split, sizes));
    EXPECT_EQ(mine, theirs.output) << split;
  }
  // GPT-NeoX's border is negative here, so it reads documents from the end: [0, -1, 1, 3].
  EXPECT_EQ(split_borders("0,1,1", 3), (Borders{0, 0, 1, 3}));
}

TEST(PositionalSplit, SharesAreReadInAnySpellingAndNonsenseIsNamed) {
  EXPECT_EQ(parse_split("969, 30, 1"), "969,30,1");
  EXPECT_EQ(parse_split("969/30/1"), "969,30,1");
  EXPECT_EQ(parse_split("0.98,0.02"), "0.98,0.02");
  EXPECT_EQ(parse_split("1"), "1");
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{{"a,b", "\"a\" is not a share"},
                                                                                  {"9,,1", "\"\" is not a share"},
                                                                                  {"9,-1", "\"-1\" is not a share"},
                                                                                  {"9,nan", "\"nan\" is not a share"},
                                                                                  {"9,1/2", "\"1/2\" is not a share"},
                                                                                  {"1,2,3,4", "it has 4 shares"},
                                                                                  {"0,0", "all shares are 0"}}) {
    const Error e = error_of([&, spelled = text] { parse_split(spelled); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.why(), why) << text;
  }
}

TEST(PositionalSplit, TheSplitsAreTheDocumentsInOrderWhateverTheShardsAndThreads) {
  const ScratchFolder scratch;
  write_lines(scratch / "text", 200);
  build(scratch / "whole", {scratch / "text"});
  const auto all = documents_of(scratch / "whole", {"train"});
  ASSERT_EQ(all.size(), 200U);
  const BuildRules rules = rules_of("70,20,10");
  const BuildResult result = build(scratch / "out", {scratch / "text"}, rules, 3, false, 1000);
  const std::vector<SplitEntry>& splits = result.manifest.splits;
  ASSERT_EQ(splits.size(), 3U);
  EXPECT_EQ(splits[2].name, "test");
  EXPECT_EQ((std::vector<int64_t>{splits[0].documents, splits[1].documents, splits[2].documents}),
            (std::vector<int64_t>{140, 40, 20}));
  EXPECT_GT(splits[1].shards.size(), 1U);
  EXPECT_EQ(documents_of(scratch / "out", {"train", "validation", "test"}), all);
  EXPECT_EQ(Dataset::open(scratch / "out").manifest().rules.split, "70,20,10");
  EXPECT_TRUE(build(scratch / "out", {scratch / "text"}, rules, 1, false, 1000).was_complete);

  const std::string bytes = folder_content(scratch / "out");
  build(scratch / "again", {scratch / "text"}, rules, 1, false, 1000);
  EXPECT_EQ(folder_content(scratch / "again"), bytes);
  EXPECT_EQ(build(scratch / "large", {scratch / "text"}, rules).manifest.identity, result.manifest.identity);
  EXPECT_EQ(error_of([&] { build(scratch / "out", {scratch / "text"}, rules_of("80,20"), 1, false, 1000); }).code(),
            ExitCode::kUser);
}

TEST(PositionalSplit, PartsOfABuildCountTheDocumentsOfAll) {
  const ScratchFolder scratch;
  write_lines(scratch / "text", 200);
  for (const bool dropping : {false, true}) {
    BuildRules rules = rules_of("70,20,10");
    rules.dedup_exact = rules.drop_empty = dropping;
    BuildOptions options;
    options.paths = {scratch / "text"};
    options.rules = rules;
    options.portion_bytes = 1000;
    options.out = scratch / fmt::format("whole-{}", dropping);
    const BuildResult whole = run(options);
    const auto kept =
        whole.manifest.splits[0].documents + whole.manifest.splits[1].documents + whole.manifest.splits[2].documents;
    EXPECT_EQ(kept, dropping ? 200 - 40 - whole.manifest.records.duplicates_dropped : 200);
    EXPECT_EQ(whole.manifest.records.duplicates_dropped > 0, dropping);
    EXPECT_EQ(whole.manifest.splits[0].documents, split_borders("70,20,10", kept)[1]);
    const std::string bytes = folder_content(options.out);

    options.out = scratch / fmt::format("parts-{}", dropping);
    options.num_parts = 3;
    for (const int64_t part : {2, 3, 1}) {
      options.part = part;
      run(options);
    }
    merge_parts(options.out);
    EXPECT_EQ(folder_content(options.out), bytes);
  }
}

TEST(PositionalSplit, APartIsAnotherOneWhenAnothersFileHasOtherDocuments) {
  const ScratchFolder scratch;
  write_lines(scratch / "text", 200);
  BuildOptions options;
  options.paths = {scratch / "text"};
  options.rules = rules_of("50,50");
  options.portion_bytes = 1000;
  options.out = scratch / "out";
  options.num_parts = 2;
  const auto documents = [&] { return run(options).manifest.splits[0].documents; };
  EXPECT_EQ(documents(), 100);
  std::string last = read_file(scratch / "text" / "2.jsonl");
  last.erase(0, last.find('\n', last.size() / 2) + 1);
  last.insert(0, std::filesystem::file_size(scratch / "text" / "2.jsonl") - last.size() - 1, ' ');
  last.back() = ' ';
  write_text(scratch / "text" / "2.jsonl", last + "\n");  // the same size as before
  EXPECT_THAT(error_of([&] { run(options); }).message(), HasSubstr("holds a different dataset"));
  options.overwrite = true;
  EXPECT_LT(documents(), 100);
}

// GPT-NeoX shuffles the documents of a split; documents after the split must not matter.
TEST(PositionalSplit, GptNeoxsOrderOfTheTrainingSplitIsThatOfItsDocumentsAlone) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 30);
  build(scratch / "out", {scratch / "text"}, rules_of("969,30,1"));
  const Dataset dataset = Dataset::open(scratch / "out");
  ASSERT_EQ(dataset.split("train").documents(), 29);
  remove_file(scratch / "text" / "doc-029.txt");
  build(scratch / "first", {scratch / "text"});
  const Dataset first = Dataset::open(scratch / "first");
  ASSERT_EQ(all_tokens(dataset.split("train")), all_tokens(first.split("train")));
  const TableArrays a = neox_window_table(dataset.split("train"), 64, 500, 1234);
  const TableArrays b = neox_window_table(first.split("train"), 64, 500, 1234);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(std::equal(a[i].bytes().begin(), a[i].bytes().end(), b[i].bytes().begin(), b[i].bytes().end()));
}

TEST(PositionalSplit, ASplitWithoutADocumentIsNamedWhenItIsAskedFor) {
  const ScratchFolder scratch;
  write_lines(scratch / "text", 10);
  build(scratch / "out", {scratch / "text"}, rules_of("949,50,1"));
  const Dataset dataset = Dataset::open(scratch / "out");
  EXPECT_EQ(dataset.split("train").documents(), 10);
  for (const char* name : {"validation", "test"}) {
    const Error e = error_of([&] { dataset.split(name); });
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_EQ(e.why(), "--split 949,50,1 gave it no document");
  }
  BuildRules both = rules_of("969,30,1");
  both.validation = 0.1;
  const Error e = error_of([&] { build(scratch / "both", {scratch / "text"}, both); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_EQ(e.message(), "--validation and --split are given both");
}

}  // namespace
}  // namespace hearth::data
