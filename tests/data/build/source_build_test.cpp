// SPDX-License-Identifier: Apache-2.0
// Builds from several kinds of sources: the counts of records, parts of a build, restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "data/build/merge_parts.h"
#include "data/corpus_folder.h"
#include "data/source/path_list.h"
#include "data/study/verify.h"
#include "support/failpoint.h"
#include "tokenizer/small_file.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

std::string json_line(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  return fmt::format("{{\"id\": 7, \"text\": \"{}\"}}\n", escaped);
}

std::string json_lines(uint64_t first, uint64_t end) {
  std::string lines;
  for (uint64_t i = first; i < end; ++i) lines += json_line(fmt::format("{} {}", i, words(i, 150)));
  return lines;
}

// The documents of a split, as text.
std::vector<std::string> documents_of(const Path& folder, const std::string& name = "train") {
  const Dataset dataset = Dataset::open(folder);
  if (!dataset.has_split(name)) return {};
  const Split& split = dataset.split(name);
  const auto tokens = all_tokens(split);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < split.documents(); ++i) {
    std::string& text = texts.emplace_back();
    for (int64_t t = split.document_begin(i); t < split.document_begin(i + 1); ++t) {
      if (tokens[static_cast<size_t>(t)] < 256) text += static_cast<char>(tokens[static_cast<size_t>(t)]);
    }
  }
  return texts;
}

// Text, JSON lines (cut into portions) and a compressed file, in one folder.
void write_mixture(const Path& folder) {
  write_corpus(folder / "text", 8);
  write_text(folder / "lines.jsonl", json_lines(0, 40));
  write_text(folder / "more.jsonl", json_lines(30, 50) + json_line("") + json_line(""));
  ASSERT_EQ(test::run_command(fmt::format("gzip --keep {}", (folder / "more.jsonl").string())).exit_code, 0);
  remove_file(folder / "more.jsonl");
}

BuildOptions small_units(const Path& out, const Path& folder) {
  BuildOptions options;
  options.out = out;
  options.paths = {folder};
  options.rules.validation = 0.2;
  options.rules.shard_tokens = 900;
  options.portion_bytes = 1500;
  return options;
}

TEST(SourceBuild, AMixtureOfSourcesKeepsEveryRecordInOrderForAnyThreads) {
  const ScratchFolder scratch;
  write_mixture(scratch / "in");
  BuildOptions options = small_units(scratch / "one", scratch / "in");
  const DatasetManifest m = run(options).manifest;
  EXPECT_EQ(m.sources.size(), 10u);
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < 40; ++i) expected.push_back(fmt::format("{} {}", i, words(i, 150)));
  for (uint64_t i = 30; i < 50; ++i) expected.push_back(fmt::format("{} {}", i, words(i, 150)));
  expected.insert(expected.end(), 2, "");
  for (int i = 0; i < 8; ++i) expected.push_back(read_file(scratch / "in" / "text" / fmt::format("doc-{:03}.txt", i)));
  std::vector<std::string> all;
  BuildOptions whole = options;
  whole.out = scratch / "whole";
  whole.rules.validation = 0;
  run(whole);
  EXPECT_EQ(documents_of(whole.out), expected);

  for (const char* split : {"train", "validation"}) {
    const auto part = documents_of(options.out, split);
    EXPECT_FALSE(part.empty());
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);
  options.threads = 4;
  options.out = scratch / "four";
  run(options);
  EXPECT_EQ(folder_content(scratch / "one"), folder_content(scratch / "four"));
}

TEST(SourceBuild, EmptyAndRepeatedRecordsAreDroppedWhereAskedForAndCounted) {
  const ScratchFolder scratch;
  write_mixture(scratch / "in");
  BuildOptions options = small_units(scratch / "out", scratch / "in");
  options.rules.validation = 0;
  options.rules.dedup_exact = true;
  const DatasetManifest kept = run(options).manifest;
  EXPECT_EQ(kept.records.duplicates_dropped, 11);  // ten records, and an empty one
  EXPECT_EQ(kept.find_split("train")->documents, 59);
  const auto texts = documents_of(scratch / "out");
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  EXPECT_EQ(texts[30], fmt::format("30 {}", words(30, 150)));  // the first of two stays

  options.rules.drop_empty = true;
  options.threads = 3;
  options.overwrite = true;
  const DatasetManifest dropped = run(options).manifest;
  EXPECT_EQ(dropped.records.empty_dropped, 2);
  EXPECT_EQ(dropped.records.duplicates_dropped, 10);
  EXPECT_EQ(dropped.find_split("train")->documents, 58);
  EXPECT_TRUE(run(options).was_complete);
}

TEST(SourceBuild, ABadRecordStopsOrIsLeftOutOrRepairedAndCounted) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", json_line("one") + "{\"text\": \n" + "{\"id\": 1}\n" + "{\"text\": 5}\n" +
                                      "{\"text\": \"a\\ud800\"}\n" + json_line("two"));
  BuildRules rules;
  const auto attempt = [&](OnError on_error) {
    rules.on_error = on_error;
    return build(scratch / std::string(on_error_name(on_error)), {scratch / "x.jsonl"}, rules).manifest.records;
  };
  const Error error = error_of([&] { attempt(OnError::kStop); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), (scratch / "x.jsonl").string() + ": line 2: not JSON at column 10: it ends early");
  EXPECT_FALSE(path_exists(scratch / "stop" / "manifest.json"));

  RecordCounts counts = attempt(OnError::kSkip);
  EXPECT_EQ(counts.num_skipped(), 4);
  for (const RecordProblem problem :
       {RecordProblem::kMalformed, RecordProblem::kMissingKey, RecordProblem::kWrongType, RecordProblem::kNotUnicode})
    EXPECT_EQ(counts.skipped[static_cast<size_t>(problem)], 1) << problem_name(problem);
  EXPECT_EQ(documents_of(scratch / "skip"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(read_manifest(scratch / "skip").records, counts);

  counts = attempt(OnError::kReplace);
  EXPECT_EQ(counts.num_skipped(), 3);
  EXPECT_EQ(counts.repaired, 1);
  EXPECT_EQ(documents_of(scratch / "replace"), (std::vector<std::string>{"one", "a\xef\xbf\xbd", "two"}));
}

TEST(SourceBuild, ASourceThatIsCutShortIsDamageAndSkippingKeepsWhatCameBefore) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", json_lines(0, 3000));
  test::run_command(fmt::format("gzip {}", (scratch / "x.jsonl").string()));
  const std::string whole = read_file(scratch / "x.jsonl.gz");
  write_text(scratch / "x.jsonl.gz", whole.substr(0, whole.size() / 2));
  const Error error = error_of([&] { build(scratch / "out", {scratch / "x.jsonl.gz"}); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr("it is cut short")) << error.message();
  BuildRules rules;
  rules.on_error = OnError::kSkip;
  const DatasetManifest m = build(scratch / "out", {scratch / "x.jsonl.gz"}, rules, 1, true).manifest;
  EXPECT_EQ(m.records.skipped[static_cast<size_t>(RecordProblem::kUnreadable)], 1);
  EXPECT_GT(m.find_split("train")->documents, 1000);
}

TEST(SourceBuild, PartsThatAreMergedAreTheSingleBuildByteForByte) {
  const ScratchFolder scratch;
  write_mixture(scratch / "in");
  for (const bool dedup : {false, true}) {
    BuildOptions options = small_units(scratch / "single", scratch / "in");
    options.rules.dedup_exact = dedup;
    options.overwrite = true;
    run(options);
    const std::string single = folder_content(options.out);
    for (const int64_t count : {2, 30}) {
      options.out = scratch / "parts";
      options.num_parts = count;
      remove_tree(options.out);
      for (int64_t i = 0; i < count; ++i) {
        options.part = 1 + (i * 7 + 1) % count;  // in another order
        if (count == 30) options.part = count - i;
        run(options);
        EXPECT_TRUE(run(options).was_complete);
      }
      merge_parts(options.out);
      EXPECT_EQ(folder_content(options.out), single) << count;
    }
  }
}

// Each part writes a copy of the tokenizer into the folder that they share.
TEST(SourceBuild, PartsThatEndAtTheSameTimeDoNotDisturbEachOther) {
  const ScratchFolder scratch;
  const std::string file = test::small_tokenizer_file("</s>") + std::string(1 << 20, ' ');
  write_text(scratch / "tokenizer.json", file);
  for (int i = 0; i < 6; ++i)
    write_text(scratch / "in" / fmt::format("{}.txt", i), std::string(static_cast<size_t>(50 + i), 'a'));
  for (int turn = 0; turn < 6; ++turn) {
    remove_tree(scratch / "out");
    std::vector<std::thread> parts;
    for (int64_t part = 1; part <= 6; ++part) {
      parts.emplace_back([&, part] {
        BuildOptions options = small_units(scratch / "out", scratch / "in");
        options.rules.tokenizer = (scratch / "tokenizer.json").string();
        options.portion_bytes = 1;
        options.part = part;
        options.num_parts = 6;
        EXPECT_NO_THROW(run(options));
      });
    }
    for (std::thread& part : parts) part.join();
    EXPECT_TRUE(read_file(scratch / "out" / "tokenizer.json") == file);
    merge_parts(scratch / "out");
    for (const std::string& name : list_folder(scratch / "out")) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  }
}

// Killed while it wrote the copy: the next build of the same part removes the rest.
TEST(SourceBuild, ATokenizersCopyThatWasBegunIsRemoved) {
  const ScratchFolder scratch;
  write_text(scratch / "tokenizer.json", test::small_tokenizer_file("</s>"));
  write_text(scratch / "in" / "a.txt", "aaa");
  BuildOptions options = small_units(scratch / "out", scratch / "in");
  options.rules.tokenizer = (scratch / "tokenizer.json").string();
  options.rules.validation = 0;
  std::vector<std::string> left;
  for (int64_t call = 1; left.empty(); ++call) {
    remove_tree(scratch / "out");
    failpoint::arm(call, EIO);
    try {
      run(options);
      FAIL() << "the copy is not written";
    } catch (const Error& e) {
      if (e.message().find(".tokenizer.tmp") != std::string::npos && e.message().starts_with("cannot write"))
        left = list_folder(scratch / "out");
    }
  }
  failpoint::disarm();
  EXPECT_EQ(std::count(left.begin(), left.end(), "manifest.json.tokenizer.tmp"), 1);
  options.rules.tokenizer = "bytes";  // it writes no copy
  options.overwrite = true;
  run(options);
  EXPECT_EQ(list_folder(scratch / "out"), (std::vector<std::string>{"manifest.json", "train-000000-0000.shard"}));
}

TEST(SourceBuild, PartsThatDoNotBelongTogetherAreRefused) {
  const ScratchFolder scratch;
  write_mixture(scratch / "in");
  BuildOptions options = small_units(scratch / "out", scratch / "in");
  Error error = error_of([&] { merge_parts(scratch / "in"); });
  EXPECT_EQ(error.message(), (scratch / "in").string() + " has no part of a build");
  options.num_parts = 3;
  run(options);
  options.part = 3;
  run(options);
  error = error_of([&] { merge_parts(options.out); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "part 2 of 3 is missing in " + options.out.string());
  options.part = 2;
  options.rules.eos = false;
  run(options);
  EXPECT_EQ(error_of([&] { merge_parts(options.out); }).why(),
            "part 2 has other options than part 1: --eos: document in part 1, none in part 2");
  options.rules.eos = true;
  error = error_of([&] { run(options); });
  EXPECT_EQ(error.message(), options.out.string() + " holds a different dataset");
  EXPECT_EQ(error.why(), "--eos: none there, document here");
  options.overwrite = true;
  run(options);
  const Path shard =
      options.out / parse_manifest(read_file(options.out / part_manifest_name(2, 3)), "part").splits[0].shards[0].file;
  std::filesystem::resize_file(shard, 200);
  EXPECT_EQ(error_of([&] { merge_parts(options.out); }).code(), ExitCode::kDamaged);
  run(options);  // repairs
  merge_parts(options.out);
  EXPECT_TRUE(verify_dataset(options.out, 1).damage.empty());
  EXPECT_EQ(error_of([&] { merge_parts(options.out); }).message(), options.out.string() + " is a dataset already");
  options.overwrite = false;
  EXPECT_EQ(error_of([&] { run(options); }).why(),
            "its manifest.json is that of a whole dataset, and --part makes a part");
  options.part = 4;
  EXPECT_EQ(error_of([&] { run(options); }).message(), "--part 4/3 is not a part of a build");
}

TEST(SourceBuild, DiskFailureAtAnyCallOfAPartOrOfTheMergeIsRepairedByRunningAgain) {
  const ScratchFolder scratch;
  write_text(scratch / "x.jsonl", json_lines(0, 12));
  write_text(scratch / "y.jsonl", json_lines(20, 28));
  BuildOptions options = small_units(scratch / "reference", scratch.path());
  options.paths = {scratch / "x.jsonl", scratch / "y.jsonl"};
  options.num_parts = 2;
  const auto run_all = [&] {
    if (path_exists(options.out / kManifestName)) return;
    for (options.part = 1; options.part <= 2; ++options.part) run(options);
    merge_parts(options.out);
  };
  failpoint::arm(1'000'000, EIO);
  run_all();
  const int64_t calls = failpoint::calls();
  failpoint::disarm();
  const std::string reference = folder_content(options.out);
  for (int64_t n = 1; n <= calls; n += 5) {  // every call of a whole build: build_test.cpp
    options.out = scratch / "out";
    failpoint::arm(n, EIO);
    EXPECT_THROW(run_all(), Error) << n;
    failpoint::disarm();
    run_all();
    if (!path_exists(options.out / part_manifest_name(2, 2))) {  // merged otherwise, except for the clean-up
      ASSERT_EQ(folder_content(options.out), reference) << n;
    }
    remove_tree(options.out);
  }
}

TEST(SourceBuild, ListsAndPatternsNamePaths) {
  const ScratchFolder scratch;
  for (const char* name : {"a1.txt", "a2.txt", "b.txt", "odd[1].txt"}) write_text(scratch / name, name);
  EXPECT_EQ(expand_patterns({scratch / "a?.txt", scratch / "odd[1].txt"}).paths,
            (std::vector<Path>{scratch / "a1.txt", scratch / "a2.txt", scratch / "odd[1].txt"}));
  // A path that is also named counts as named.
  const auto patterns = expand_patterns({scratch / "*.txt", scratch / "a1.txt"}).patterns;
  EXPECT_EQ(patterns.size(), 3u);
  EXPECT_EQ(patterns.at((scratch / "a2.txt").string()), "*.txt");
  EXPECT_FALSE(patterns.contains((scratch / "a1.txt").string()));
  EXPECT_EQ(error_of([&] { expand_patterns({scratch / "c*"}); }).message(),
            "nothing matches " + (scratch / "c*").string());
  write_text(scratch / "list", "# what we take\nb.txt\r\n\n" + (scratch / "a1.txt").string() + "\n");
  EXPECT_EQ(read_source_list(scratch / "list"), (std::vector<Path>{scratch / "b.txt", scratch / "a1.txt"}));
  write_text(scratch / "list", "\n");
  EXPECT_EQ(error_of([&] { read_source_list(scratch / "list"); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::data
