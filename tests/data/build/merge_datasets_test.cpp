// SPDX-License-Identifier: Apache-2.0
// Merged datasets compared with a single build of all their files, and datasets that cannot be merged.
#include "data/build/merge_datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "data/corpus_folder.h"
#include "data/study/verify.h"
#include "support/failpoint.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

// Twenty files. One folder links to the first eight, the next to seven, the last to the others.
struct Corpus {
  ScratchFolder scratch;
  Corpus() {
    write_corpus(scratch / "all", 20);
    for (int i = 0; i < 20; ++i) {
      const std::string name = fmt::format("doc-{:03}.txt", i);
      make_folders(scratch / part_of(i));
      std::filesystem::create_symlink(scratch / "all" / name, scratch / part_of(i) / name);
    }
  }
  static std::string part_of(int i) { return i < 8 ? "a" : i < 15 ? "b" : "c"; }
  Path operator/(const std::string& name) const { return scratch / name; }
  // FOLDER-data from FOLDER.
  DatasetManifest make(const std::string& folder, const BuildRules& rules = small()) const {
    return build(data(folder), {scratch / folder}, rules, 2, true, 500).manifest;
  }
  Path data(const std::string& folder) const { return scratch / (folder + "-data"); }
  static BuildRules small() {
    BuildRules rules;
    rules.validation = 0.3;
    rules.shard_tokens = 600;
    return rules;
  }
};

std::vector<std::string> paths_of_documents(const Dataset& dataset, const char* name) {
  std::vector<std::string> paths;
  const Split& split = dataset.split(name);
  for (int64_t i = 0; i < split.documents(); ++i)
    paths.push_back(dataset.manifest().sources.at(static_cast<size_t>(split.origin(i).source)).real_path);
  return paths;
}

void expect_same_dataset(const Dataset& a, const Dataset& b) {
  EXPECT_EQ(a.manifest().identity, b.manifest().identity);
  ASSERT_EQ(a.manifest().splits.size(), b.manifest().splits.size());
  for (const SplitEntry& split : a.manifest().splits) {
    const char* name = split.name.c_str();
    EXPECT_EQ(split.content, b.manifest().find_split(name)->content);
    EXPECT_EQ(split.text_bytes, b.manifest().find_split(name)->text_bytes);
    EXPECT_TRUE(all_tokens(a.split(name)) == all_tokens(b.split(name)));
    EXPECT_EQ(a.split(name).document_begins(0, split.documents + 1),
              b.split(name).document_begins(0, split.documents + 1));
    EXPECT_EQ(paths_of_documents(a, name), paths_of_documents(b, name));
  }
  EXPECT_EQ(a.manifest().records, b.manifest().records);
}

TEST(MergeDatasets, TheWholeIsWhatASingleBuildOfAllFilesMakes) {
  const Corpus c;
  for (const char* folder : {"a", "b", "c", "all"}) c.make(folder);
  const MergeResult result = merge_datasets({c.data("a"), c.data("b"), c.data("c")}, c / "whole", false);
  EXPECT_TRUE(result.notes.empty());
  EXPECT_EQ(result.shards_copied, 0);
  EXPECT_GT(result.shards_linked, 10);
  const Dataset single = Dataset::open(c.data("all"));
  expect_same_dataset(Dataset::open(c / "whole"), single);
  EXPECT_EQ(Dataset::open(c / "whole").manifest().rules.validation, 0.3);
  EXPECT_TRUE(merge_datasets({c.data("a"), c.data("b"), c.data("c")}, c / "whole", false).was_complete);

  // Joined step by step it is the same; another order gives another dataset.
  merge_datasets({c.data("a"), c.data("b")}, c / "first", false);
  const MergeResult steps = merge_datasets({c / "first", c.data("c")}, c / "steps", false);
  expect_same_dataset(Dataset::open(c / "steps"), single);
  EXPECT_EQ(steps.manifest.merged, result.manifest.merged);
  EXPECT_EQ(steps.manifest.merged.size(), 3U);
  EXPECT_NE(merge_datasets({c.data("b"), c.data("a"), c.data("c")}, c / "other", false).manifest.identity,
            single.manifest().identity);

  // No byte is stored twice, and the whole does not need its parts.
  const Path shard = c / "whole" / result.manifest.splits[0].shards[0].file;
  struct stat status {};
  ASSERT_EQ(::stat(shard.c_str(), &status), 0);
  EXPECT_GE(status.st_nlink, 2U);
  for (const char* folder : {"a", "b", "c"}) remove_tree(c.data(folder));
  expect_same_dataset(Dataset::open(c / "whole"), single);
  EXPECT_TRUE(verify_dataset(c / "whole", 2).damage.empty());
  EXPECT_EQ(manifest_text(read_manifest(c / "whole")), read_file(c / "whole" / "manifest.json"));
}

TEST(MergeDatasets, WhatCannotBeOneDatasetIsNamed) {
  const Corpus c;
  for (const char* folder : {"a", "b"}) c.make(folder);
  const auto refused = [&](const std::vector<Path>& folders) {
    const Error e = error_of([&] { merge_datasets(folders, c / "whole", false); });
    EXPECT_EQ(e.code(), ExitCode::kUser) << e.what();
    EXPECT_FALSE(path_exists(c / "whole"));
    EXPECT_FALSE(path_exists(c / "whole.tmp"));
    return e.message() + ": " + e.why();
  };
  const std::string a = c.data("a").string(), b = c.data("b").string(), other = c.data("c").string();
  EXPECT_EQ(refused({a, b, a}), fmt::format("{} and {} are the same dataset: ", a, a));
  BuildRules rules = Corpus::small();
  rules.eos = false;
  c.make("c", rules);
  EXPECT_EQ(refused({a, other}),
            fmt::format("{} and {} cannot be one dataset: they have different --eos: document and none", a, other));
  rules.bos = rules.eos = true;
  c.make("c", rules);
  EXPECT_EQ(refused({a, other}),
            fmt::format("{} and {} cannot be one dataset: they have different --bos: none and document", a, other));
  c.make("all");
  EXPECT_TRUE(refused({a, c.data("all")})
                  .starts_with(fmt::format("{} and {} hold the same documents: {}", a, c.data("all").string(),
                                           (c / "a" / "doc-000.txt").string())));
  EXPECT_TRUE(refused({a, (c / "nothing").string()}).starts_with((c / "nothing").string() + " holds no dataset"));
}

TEST(MergeDatasets, TokenizersMustBeTheSame) {
  const ScratchFolder scratch;
  write_text(scratch / "one.txt", "one");
  const auto jobs =
      nlohmann::json::array({{(scratch / "ids").string(), "u16", "neox", nlohmann::json::parse("[[1, 2], [3]]")}});
  write_text(scratch / "jobs", jobs.dump());
  const auto written = test::run_command(fmt::format(
      "python3 {} < {}", test::source_path("tests/data/formats/indexed_reference.py"), (scratch / "jobs").string()));
  ASSERT_EQ(written.exit_code, 0) << written.output;
  build(scratch / "bytes", {scratch / "one.txt"});
  BuildRules rules;
  rules.tokenizer = "ids:258";
  build(scratch / "ids-data", {scratch / "ids.bin"}, rules);
  const Error e = error_of([&] { merge_datasets({scratch / "bytes", scratch / "ids-data"}, scratch / "out", false); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_TRUE(e.why().starts_with("they have different tokenizers: bytes (")) << e.why();
}

TEST(MergeDatasets, RulesThatWorkWithinADatasetAreSaidNotToWorkAcross) {
  const Corpus c;
  BuildRules rules = Corpus::small();
  rules.dedup_exact = true;
  rules.validation = 0;
  rules.split = "2,1,1";
  c.make("a", rules);
  c.make("b");
  const MergeResult result = merge_datasets({c.data("a"), c.data("b")}, c / "whole", false);
  ASSERT_EQ(result.notes.size(), 3U);
  EXPECT_THAT(result.notes[0], HasSubstr("a document in two datasets is there twice"));
  EXPECT_EQ(result.notes[1], "each dataset was split by position separately");
  EXPECT_THAT(result.notes[2], HasSubstr("different shares were held out"));
  const DatasetManifest m = read_manifest(c / "whole");
  EXPECT_EQ(std::tuple(m.rules.split, m.rules.validation, m.rules.dedup_exact), std::tuple("", 0.0, false));
  EXPECT_EQ(std::tuple(m.merged[0].rules.split, m.merged[1].rules.validation), std::tuple("2,1,1", 0.3));
  ASSERT_EQ(m.splits.size(), 3U);
  EXPECT_EQ(m.splits[2].documents, 2);
  const Dataset a = Dataset::open(c.data("a")), b = Dataset::open(c.data("b")), whole = Dataset::open(c / "whole");
  for (const char* name : {"train", "validation"}) {
    auto expected = all_tokens(a.split(name)), second = all_tokens(b.split(name));
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_TRUE(all_tokens(whole.split(name)) == expected);
  }
}

TEST(MergeDatasets, TheSameFileMayGiveTwoColumnsAndTokensMayStayInPlace) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", "{\"question\": \"why\", \"answer\": \"so\"}\n");
  for (const char* key : {"question", "answer"}) {
    BuildRules rules;
    rules.read.text_keys = {key};
    build(scratch / key, {scratch / "x.jsonl"}, rules);
  }
  merge_datasets({scratch / "question", scratch / "answer"}, scratch / "both", false);
  EXPECT_EQ(all_tokens(Dataset::open(scratch / "both").split("train")),
            (std::vector<int32_t>{'w', 'h', 'y', 257, 's', 'o', 257}));

  const auto jobs =
      nlohmann::json::array({{(scratch / "p").string(), "u16", "neox", nlohmann::json::parse("[[1, 2], [3]]")},
                             {(scratch / "q").string(), "i32", "neox", nlohmann::json::parse("[[4], [5, 6]]")}});
  write_text(scratch / "jobs", jobs.dump());
  ASSERT_EQ(
      test::run_command(fmt::format("python3 {} < {}", test::source_path("tests/data/formats/indexed_reference.py"),
                                    (scratch / "jobs").string()))
          .exit_code,
      0);
  for (const char* name : {"p", "q"}) {
    BuildRules rules;
    rules.tokenizer = "ids:10";
    rules.in_place = *name == 'q';
    build(scratch / fmt::format("{}-data", name), {scratch / fmt::format("{}.bin", name)}, rules);
  }
  merge_datasets({scratch / "p-data", scratch / "q-data"}, scratch / "ids", false);
  const Dataset dataset = Dataset::open(scratch / "ids");
  EXPECT_EQ(all_tokens(dataset.split("train")), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(dataset.manifest().splits[0].shards[1].tokens_in, 1);
  EXPECT_EQ(paths_of_documents(dataset, "train")[3], (scratch / "q.bin").string());
  remove_file(scratch / "q.bin");
  EXPECT_THAT(error_of([&] { Dataset::open(scratch / "ids"); }).why(), HasSubstr("q.bin, which is missing"));
}

TEST(MergeDatasets, AFullDiskAnywhereLeavesTheOldDatasetOrTheNewOne) {
  const Corpus c;
  for (const char* folder : {"a", "b", "c"}) c.make(folder);
  const std::vector<Path> new_ones = {c.data("b"), c.data("c")};
  const auto make_old = [&] { merge_datasets({c.data("a"), c.data("b")}, c / "whole", true); };
  make_old();
  const std::string before = folder_content(c / "whole");
  EXPECT_THAT(error_of([&] { merge_datasets(new_ones, c / "whole", false); }).message(), HasSubstr("exists already"));
  merge_datasets(new_ones, c / "whole", true);
  const std::string after = folder_content(c / "whole");
  ASSERT_NE(before, after);
  int failures = 0;
  bool done = false;
  for (int64_t call = 1; !done; call += 3) {
    make_old();
    failpoint::arm(call, ENOSPC);
    try {
      merge_datasets(new_ones, c / "whole", true);
      done = true;
    } catch (const Error& e) {
      ++failures;
      EXPECT_EQ(e.code(), ExitCode::kHardware) << e.what();
    }
    failpoint::disarm();
    if (!path_exists(c / "whole" / "manifest.json")) {  // between the old manifest's end and the new one's name
      remove_tree(c / "whole");
      continue;
    }
    const std::string now = folder_content(c / "whole");
    EXPECT_TRUE(now == before || now == after) << call;
  }
  EXPECT_GT(failures, 5);
  for (const char* folder : {"a", "b", "c"}) EXPECT_TRUE(verify_dataset(c.data(folder), 1).damage.empty());
}

TEST(MergeDatasets, NothingElseIsReplacedAndADamagedShardIsNotTakenOver) {
  const Corpus c;
  for (const char* folder : {"a", "b"}) c.make(folder);
  const std::vector<Path> both = {c.data("a"), c.data("b")};
  const auto message = [&](const Path& out) { return error_of([&] { merge_datasets(both, out, true); }).message(); };
  write_text(c / "home" / "letters.txt", "dear");
  EXPECT_EQ(message(c / "home"), (c / "home").string() + " is not a dataset");
  EXPECT_EQ(message(c.data("b")), c.data("b").string() + " is one of the datasets that are merged");
  EXPECT_EQ(read_file(c / "home" / "letters.txt"), "dear");

  const ShardEntry shard = read_manifest(c.data("b")).splits[0].shards[0];
  std::string bytes = read_file(c.data("b") / shard.file);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);  // in its header
  write_text(c.data("b") / shard.file, bytes);
  EXPECT_EQ(error_of([&] { merge_datasets(both, c / "whole", false); }).code(), ExitCode::kDamaged);
  EXPECT_FALSE(path_exists(c / "whole"));
}

TEST(MergeDatasets, OnAnotherFileSystemFilesAreCopied) {
  const ScratchFolder scratch;
  const auto device_of = [](const Path& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_dev : 0;
  };
  const std::vector<Path> folders = {"/dev/shm", "/tmp", "/var/tmp"};
  const auto elsewhere = std::find_if(folders.begin(), folders.end(), [&](const Path& folder) {
    return device_of(folder) != 0 && device_of(folder) != device_of(scratch);
  });
  if (elsewhere == folders.end()) GTEST_SKIP() << "there is no second file system here";
  const Path other = *elsewhere / scratch.path().filename();
  make_folders(other);
  const std::string content = words(1, 2'500'000);
  write_text(scratch / "from", content);
  EXPECT_TRUE(link_or_copy(scratch / "from", scratch / "to"));
  EXPECT_FALSE(link_or_copy(scratch / "from", other / "to"));
  EXPECT_TRUE(read_file(other / "to") == content);
  remove_tree(other);
}

}  // namespace
}  // namespace hearth::data
