// SPDX-License-Identifier: Apache-2.0
// The reasons that a folder "holds a different dataset": each option and each input by name.
#include "data/build/differences.h"

#include <gmock/gmock.h>

#include <functional>

#include "data/build/merge_datasets.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;
using testing::StartsWith;

// Why a build into a folder of the dataset of `there` is refused. Empty: it is not.
std::string refusal(const BuildOptions& there, const BuildOptions& here) {
  BuildOptions first = there, second = here;
  first.overwrite = true;
  second.out = first.out;
  run(first);
  try {
    run(second);
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), first.out.string() + " holds a different dataset") << e.what();
    return e.why();
  }
  return {};
}

std::string rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{{\"text\": \"row {}\", \"title\": \"t\"}}\n", i);
  return text;
}

struct Change {
  std::string why;
  std::function<void(BuildOptions&)> make;
};

TEST(BuildDifferences, EachOptionIsNamedWithItsTwoValues) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", rows(30));
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "a.jsonl"};
  const std::vector<Change> changes = {
      {"--bos: none there, document here", [](BuildOptions& o) { o.bos = true; }},
      {"--eos: document there, none here", [](BuildOptions& o) { o.eos = false; }},
      {"--validation: 0 there, 0.1 here", [](BuildOptions& o) { o.rules.validation = 0.1; }},
      {"--split: none there, 90,10 here", [](BuildOptions& o) { o.rules.split = "90,10"; }},
      {"--on-error: stop there, skip here", [](BuildOptions& o) { o.rules.on_error = OnError::kSkip; }},
      {"--drop-empty: no there, yes here", [](BuildOptions& o) { o.rules.drop_empty = true; }},
      {"--dedup: none there, exact here", [](BuildOptions& o) { o.rules.dedup_exact = true; }},
      {"--shard-tokens: 67108864 there, 99 here", [](BuildOptions& o) { o.rules.shard_tokens = 99; }},
      {"--format: found from the content there, jsonl here", [](BuildOptions& o) { o.rules.read.format = "jsonl"; }},
      {"--document-bytes: 0 there, 40 here", [](BuildOptions& o) { o.rules.read.document_bytes = 40; }},
      {"--text-key: \"text\" there, \"text\" \"title\" here",
       [](BuildOptions& o) {
         o.rules.read.text_keys = {"text", "title"};
       }},
      {R"(--text-join: "\n\n" there, "\n" here)", [](BuildOptions& o) { o.rules.read.text_join = "\n"; }},
      {"--join-first: no there, yes here", [](BuildOptions& o) { o.rules.read.join_first = true; }},
      {"--max-record-bytes: 268435456 there, 5000 here", [](BuildOptions& o) { o.rules.read.max_record_bytes = 5000; }},
      {"--loss-key: none there, \"text\" here", [](BuildOptions& o) { o.rules.read.loss_keys = {"text"}; }},
      {"--tokenizer: bytes there, ids:300 here; --eos: document there, none here",
       [](BuildOptions& o) { o.rules.tokenizer = "ids:300"; }},
  };
  for (const Change& change : changes) {
    BuildOptions other = options;
    change.make(other);
    EXPECT_EQ(refusal(options, other), change.why);
  }
}

TEST(BuildDifferences, OnlyTheFirstFourAreNamed) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", rows(30));
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "a.jsonl"};
  BuildOptions other = options;
  other.rules.validation = 0.5;
  other.rules.drop_empty = other.rules.dedup_exact = other.rules.read.join_first = true;
  other.eos = false;
  EXPECT_EQ(refusal(options, other),
            "--eos: document there, none here; --validation: 0 there, 0.5 here; --drop-empty: no there, yes here; "
            "--dedup: none there, exact here and 1 more");
}

TEST(BuildDifferences, InputsAreNamedByTheKindOfDifference) {
  const ScratchFolder scratch;
  const auto path = [&](const char* name) { return (scratch / "in" / name).string(); };
  for (const char* name : {"a.txt", "b.txt", "c.txt", "d.txt", "e.txt"})
    write_text(path(name), fmt::format("this is {}", name));
  BuildOptions all;
  all.out = scratch / "out";
  all.paths = {scratch / "in"};
  BuildOptions some = all;
  some.paths = {path("a.txt")};
  EXPECT_EQ(refusal(all, some),
            fmt::format("input: {}, {}, {} and 1 more only there", path("b.txt"), path("c.txt"), path("d.txt")));
  EXPECT_EQ(refusal(some, all),
            fmt::format("input: {}, {}, {} and 1 more only here", path("b.txt"), path("c.txt"), path("d.txt")));

  all.overwrite = true;
  run(all);
  all.overwrite = false;
  write_text(path("c.txt"), "this was c.txt");
  write_text(path("d.txt"), "that is d.txt");  // the same size
  EXPECT_EQ(error_of([&] { run(all); }).why(),
            fmt::format("input: {}, {} with other content", path("c.txt"), path("d.txt")));
}

TEST(BuildDifferences, MovedFilesAreTheSameUnlessTheirOrderChanges) {
  const ScratchFolder scratch;
  write_text(scratch / "in" / "a.txt", "one");
  write_text(scratch / "in" / "b.txt", "two and more");
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "in"};
  BuildOptions moved = options;
  moved.paths = {scratch / "moved"};
  write_text(scratch / "moved" / "a.txt", "one");
  write_text(scratch / "moved" / "b.txt", "two and more");
  EXPECT_EQ(refusal(options, moved), "");
  write_text(scratch / "swapped" / "a.txt", "two and more");
  write_text(scratch / "swapped" / "b.txt", "one");
  moved.paths = {scratch / "swapped"};
  EXPECT_EQ(refusal(options, moved), "input: the same files in another order");
}

TEST(BuildDifferences, ATokenizerOfTheSameNameIsToldByItsSizeAndHash) {
  const ScratchFolder scratch;
  DatasetManifest there, here;
  there.rules.tokenizer = here.rules.tokenizer = "tokenizer.json";
  there.tokenizer_hash = "0123456789abcdef";
  here.tokenizer_hash = "fedcba9876543210";
  there.vocab_size = 1000;
  here.vocab_size = 2000;
  EXPECT_EQ(differences(there, here, {"there", "here"}),
            "--tokenizer: another tokenizer.json, with 1000 ids there, 2000 ids here (hash 01234567 and fedcba98)");
}

TEST(BuildDifferences, OtherPortionsAndMergedDatasetsAreSaid) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", rows(3000));
  write_text(scratch / "b.jsonl", rows(10));
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "a.jsonl"};
  options.rules.shard_tokens = 1000;
  BuildOptions other = options;
  other.portion_bytes = 5000;
  EXPECT_EQ(refusal(options, other), "--portion-bytes, or the version of hearth, was another one");

  BuildOptions second = options;
  second.out = scratch / "b";
  second.paths = {scratch / "b.jsonl"};
  run(second);
  merge_datasets({scratch / "out", scratch / "b"}, scratch / "both", false);
  options.out = scratch / "both";
  EXPECT_EQ(error_of([&] { run(options); }).why(), "`hearth data merge` made it from 2 datasets");
}

TEST(BuildDifferences, APartIsToldFromAWhole) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", rows(30));
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "a.jsonl"};
  options.num_parts = 2;
  run(options);
  options.num_parts = 1;
  EXPECT_EQ(error_of([&] { run(options); }).why(), "it has a part of a build (--part): part-00001-of-00002.json");
}

TEST(BuildDifferences, AManifestOfAnotherVersionIsSaidToBeOne) {
  const ScratchFolder scratch;
  write_text(scratch / "a.jsonl", rows(30));
  BuildOptions options;
  options.out = scratch / "out";
  options.paths = {scratch / "a.jsonl"};
  make_folders(options.out);
  write_text(scratch / "out" / "manifest.json", R"({"format": "hearth dataset", "version": 99})");
  EXPECT_THAT(error_of([&] { run(options); }).why(), testing::HasSubstr("99"));
}

}  // namespace
}  // namespace hearth::data
