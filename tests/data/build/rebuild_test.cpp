// SPDX-License-Identifier: Apache-2.0
// Building into a folder with a dataset: a whole, damaged, half-written or different one.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "data/build/holdout.h"
#include "data/corpus_folder.h"
#include "data/study/verify.h"
#include "support/failpoint.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;

TEST(Rebuild, BuildingAgainDoesNothingAndTouchesNothing) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 10);
  EXPECT_FALSE(build(scratch / "out", {scratch / "text"}).was_complete);
  const std::string before = folder_content(scratch / "out");
  failpoint::arm(1, EIO);  // any call that changes the disk would throw
  EXPECT_TRUE(build(scratch / "out", {scratch / "text"}).was_complete);
  EXPECT_EQ(failpoint::calls(), 0);
  failpoint::disarm();
  EXPECT_EQ(folder_content(scratch / "out"), before);
}

TEST(Rebuild, BuildingAgainRepairsADamagedShard) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 10);
  BuildRules rules;
  rules.shard_tokens = 600;
  build(scratch / "out", {scratch / "text"}, rules);
  const std::string before = folder_content(scratch / "out");
  std::string shard = read_file(scratch / "out" / "train-000000-0001.shard");
  shard[200] = static_cast<char>(shard[200] ^ 4);
  write_text(scratch / "out" / "train-000000-0001.shard", shard);
  remove_file(scratch / "out" / "train-000000-0002.shard");
  const BuildResult result = build(scratch / "out", {scratch / "text"}, rules);
  EXPECT_EQ(result.shards_written, 2);
  EXPECT_EQ(folder_content(scratch / "out"), before);
}

TEST(Rebuild, AnotherDatasetIsReplacedOnlyWhenAskedFor) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 10);
  BuildRules many;
  many.shard_tokens = 300;
  build(scratch / "out", {scratch / "text"}, many);
  const std::string before = folder_content(scratch / "out");

  BuildRules other;
  other.eos = false;
  Error error = error_of([&] { build(scratch / "out", {scratch / "text"}, other); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), (scratch / "out").string() + " holds a different dataset");
  EXPECT_EQ(error.why(), "--eos: document there, none here; --shard-tokens: 300 there, 67108864 here");
  EXPECT_EQ(folder_content(scratch / "out"), before);

  remove_file(scratch / "out" / "manifest.json");  // half of another build is not ours to replace, either
  error = error_of([&] { build(scratch / "out", {scratch / "text"}, other); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.why(),
            "train-000000-0000.shard was made from other text or with other options, by a build that did not end");

  build(scratch / "out", {scratch / "text"}, other, 1, true);
  build(scratch / "fresh", {scratch / "text"}, other);
  EXPECT_EQ(folder_content(scratch / "out"), folder_content(scratch / "fresh"));
}

// Options that change no shard here are still other options.
TEST(Rebuild, OtherOptionsAreAnotherDatasetEvenIfEveryShardIsTheSame) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 5);
  build(scratch / "out", {scratch / "text"});
  BuildRules other;
  other.read.document_bytes = 1 << 20;
  const Error error = error_of([&] { build(scratch / "out", {scratch / "text"}, other); });
  EXPECT_EQ(error.why(), "--document-bytes: 0 there, 1048576 here");
}

// A shard's content besides its text: BOS, EOS, and the number of its source.
TEST(Rebuild, AReplacedDatasetIsThatOfAFreshBuildWhateverChanged) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 6);
  BuildRules rules;
  rules.validation = 0.3;
  rules.shard_tokens = 300;
  const auto expect_fresh = [&](const char* name) {
    build(scratch / "out", {scratch / "text"}, rules, 1, true);
    build(scratch / name, {scratch / "text"}, rules);
    EXPECT_EQ(folder_content(scratch / "out"), folder_content(scratch / name)) << name;
  };
  expect_fresh("first");
  rules.bos = true;
  expect_fresh("bos");
  rules.eos = false;
  expect_fresh("eos");
  // A held-out file that comes first: training shards keep their text, and each source's number grows by one.
  std::string text = "a";
  while (!Holdout{rules.validation, std::nullopt}.contains(xxh3_128(text))) text += "a";
  write_text(scratch / "text" / "aaa.txt", text);
  expect_fresh("shifted");
}

TEST(Rebuild, BuildingAgainRepairsTheManifest) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 5);
  build(scratch / "out", {scratch / "text"});
  const std::string good = read_file(scratch / "out" / "manifest.json");
  std::string bad = good;
  bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 1);
  write_text(scratch / "out" / "manifest.json", bad);
  EXPECT_FALSE(build(scratch / "out", {scratch / "text"}).was_complete);
  EXPECT_EQ(read_file(scratch / "out" / "manifest.json"), good);
}

// Lets n calls that change the disk pass and fails the next, for every n. The same build must then give the same bytes.
void fail_every_call(int64_t threads, int error_number) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 9);
  BuildRules rules;
  rules.validation = 0.3;
  rules.shard_tokens = 600;
  const auto run = [&](const Path& out, int64_t with) { build(out, {scratch / "text"}, rules, with, false, 900); };
  run(scratch / "reference", 1);
  const std::string reference = folder_content(scratch / "reference");
  failpoint::arm(1'000'000, error_number);
  run(scratch / "count", threads);
  const int64_t calls = failpoint::calls();
  failpoint::disarm();
  EXPECT_GT(calls, 25);
  for (int64_t n = 1; n <= calls; ++n) {
    const Path out = scratch / fmt::format("out-{}", n);
    failpoint::arm(n, error_number);
    ExitCode code = ExitCode::kDone;
    try {
      run(out, threads);
    } catch (const Error& e) {
      code = e.code();
    }
    failpoint::disarm();
    ASSERT_EQ(code, ExitCode::kHardware) << "call " << n;
    if (path_exists(out / "manifest.json")) {
      ASSERT_TRUE(verify_dataset(out, 1).damage.empty()) << "call " << n;
    }
    run(out, threads);
    ASSERT_EQ(folder_content(out), reference) << "call " << n;
    remove_tree(out);
  }
}

// During a replacement the folder has the old dataset, no dataset, or the new one; never a mixture.
TEST(Rebuild, DiskFullAtAnyCallOfAReplacementLeavesNoMixture) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 9);
  BuildRules rules;
  rules.shard_tokens = 600;
  build(scratch / "old", {scratch / "text"}, rules);
  rules.eos = false;
  for (int64_t n = 1;; ++n) {
    const Path out = scratch / fmt::format("out-{}", n);
    std::filesystem::copy(scratch / "old", out);
    failpoint::arm(n, ENOSPC);
    bool failed = false;
    try {
      build(out, {scratch / "text"}, rules, 1, true);
    } catch (const Error&) {
      failed = true;
    }
    failpoint::disarm();
    if (path_exists(out / "manifest.json")) {
      EXPECT_TRUE(verify_dataset(out, 1).damage.empty()) << "call " << n;
    }
    if (!failed) break;
    remove_tree(out);
  }
}

TEST(Rebuild, DiskFullAtAnyCallLeavesNothingHalfGood) { fail_every_call(1, ENOSPC); }
TEST(Rebuild, DiskErrorAtAnyCallLeavesNothingHalfGood) { fail_every_call(2, EIO); }

}  // namespace
}  // namespace hearth::data
