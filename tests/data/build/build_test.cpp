// SPDX-License-Identifier: Apache-2.0
#include "data/build/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "data/corpus_folder.h"
#include "support/durable.h"
#include "support/errors.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;
using testing::HasSubstr;

void expect_that_a_stranger_reads_it(bool bos, bool eos) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 12);
  write_text(scratch / "text" / "bytes.bin", "text with bytes \xff\xfe that are \x80 not UTF-8");
  BuildRules rules;
  rules.validation = 0.3;
  rules.bos = bos;
  rules.eos = eos;
  rules.shard_tokens = 1000;
  const BuildResult result = build(scratch / "out", {scratch / "text"}, rules);
  EXPECT_GT(result.shards_written, 3);

  const auto run = test::run_command(fmt::format(
      "python3 {} {}", test::source_path("tests/data/shard/read_from_document.py"), (scratch / "out").string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const auto found = nlohmann::json::parse(run.output);
  nlohmann::json specials = nlohmann::json::array();
  if (bos) specials.push_back(256);
  if (eos) specials.push_back(257);
  std::map<std::string, std::string> texts;
  for (const auto& [split, documents] : found.items()) {
    for (const auto& document : documents) {
      std::string text;  // the script gives one code point a byte
      const auto latin = document["text"].get<std::string>();
      for (size_t i = 0; i < latin.size(); ++i) {
        const auto lead = static_cast<unsigned char>(latin[i]);
        text += static_cast<char>(lead < 0x80 ? lead : (lead << 6 | (latin[++i] & 0x3F)) & 0xFF);
      }
      EXPECT_EQ(document["specials"], specials);
      EXPECT_EQ(document["offset"], 0);
      EXPECT_TRUE(texts.emplace(document["path"].get<std::string>(), text).second);
    }
  }
  EXPECT_EQ(found["validation"].size(), static_cast<size_t>(result.manifest.find_split("validation")->documents));
  ASSERT_EQ(texts.size(), 13u);
  for (const auto& [path, text] : texts) EXPECT_EQ(text, read_file(path)) << path;
}

TEST(Build, AStrangerReadsTheShardsFromTheDocumentAlone) {
  expect_that_a_stranger_reads_it(true, true);
  expect_that_a_stranger_reads_it(false, false);
}

// Each document except the last ends at the first line end that makes it long enough. Together they are the file.
TEST(Build, AFileThatIsCutIntoDocumentsLosesNothing) {
  std::string text;
  for (uint64_t i = 0; i < 60; ++i) text += words(i, static_cast<int64_t>(i % 13)) + "\n";
  text += "no line end";
  for (const int64_t document_bytes : {1, 7, 50, 100, 10'000}) {
    const ScratchFolder scratch;
    write_text(scratch / "text.txt", text);
    BuildRules rules;
    rules.read.document_bytes = document_bytes;
    rules.shard_tokens = 200;
    build(scratch / "out", {scratch / "text.txt"}, rules);
    const Dataset dataset = Dataset::open(scratch / "out");
    const Split& split = dataset.split("train");
    size_t begin = 0;
    for (int64_t document = 0; document < split.documents(); ++document) {
      size_t end = text.find('\n', begin + static_cast<size_t>(document_bytes) - 1);
      end = end == std::string::npos || text.size() - begin <= static_cast<size_t>(document_bytes) ? text.size()
                                                                                                   : end + 1;
      std::vector<int32_t> ids(end - begin);
      ASSERT_EQ(split.document_begin(document + 1) - split.document_begin(document),
                static_cast<int64_t>(ids.size()) + 1);
      split.read(split.document_begin(document), ids);
      ASSERT_EQ(std::string(ids.begin(), ids.end()), text.substr(begin, end - begin)) << document;
      EXPECT_EQ(split.origin(document).source_offset, static_cast<int64_t>(begin));
      begin = end;
    }
    EXPECT_EQ(begin, text.size()) << document_bytes;
  }
}

TEST(Build, EachFileCountsOnceByItsRealPathAndEachContentOnce) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 5);
  write_text(scratch / "text" / "deep" / "copy.txt", read_file(scratch / "text" / "doc-001.txt"));
  write_text(scratch / "text" / "empty.txt", "");
  std::filesystem::create_symlink("doc-002.txt", scratch / "text" / "link.txt");
  std::filesystem::create_directory_symlink("..", scratch / "text" / "deep" / "up");  // a cycle
  ASSERT_EQ(::mkfifo((scratch / "text" / "pipe.txt").c_str(), 0600), 0);
  const DatasetManifest m = build(scratch / "out", {scratch / "text", scratch / "text" / "doc-003.txt"}).manifest;
  EXPECT_EQ(m.sources.size(), 5u);
  EXPECT_EQ(m.duplicates_dropped, 1);
  EXPECT_EQ(m.empty_dropped, 1);
  EXPECT_EQ(m.links_resolved, 3);  // link.txt, up, doc-003.txt
  EXPECT_EQ(m.skipped, 1);
  EXPECT_EQ(m.find_split("train")->documents, 5);
}

// A clone of git-annex without its data, and a cache of the Hub that lost some: the rest would be a part of the
// dataset.
TEST(Build, LinksToFilesThatAreNotHereAreRefusedUnlessTheyAreLeftOut) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 3);
  std::filesystem::create_symlink(".git/annex/objects/K2", scratch / "text" / "b.txt");
  std::filesystem::create_symlink("../../blobs/missing", scratch / "text" / "c.txt");
  std::filesystem::create_symlink("nowhere", scratch / "text" / ".hidden");
  for (const Path& given : {scratch / "text", scratch / "text" / "b.txt"}) {
    const Error error = test::error_of([&] { build(scratch / "out", {given}); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_THAT(error.message(), HasSubstr("b.txt"));
  }
  const Error error = test::error_of([&] { build(scratch / "out", {scratch / "text"}); });
  EXPECT_THAT(error.message(), HasSubstr("is a link to a file that is not here"));
  EXPECT_THAT(error.why(), HasSubstr("1 more link without a file"));
  EXPECT_THAT(error.fix(), HasSubstr("git annex get"));
  EXPECT_FALSE(path_exists(scratch / "out"));
  for (const char* link : {"b.txt", "c.txt"}) remove_file(scratch / "text" / link);
  EXPECT_EQ(build(scratch / "out", {scratch / "text"}).manifest.sources.size(), 3u);
}

TEST(Build, TheOrderOfArgumentsAndThreadsDoesNotMatter) {
  const ScratchFolder scratch;
  write_corpus(scratch / "a", 20);
  for (int i = 0; i < 20; ++i)
    write_text(scratch / "b" / fmt::format("{}.txt", i), words(1000 + static_cast<uint64_t>(i), 90));
  BuildRules rules;
  rules.validation = 0.2;
  rules.shard_tokens = 700;
  for (const int64_t portion_bytes : {100'000, 1500}) {
    const std::string name = std::to_string(portion_bytes);
    build(scratch / ("one" + name), {scratch / "a", scratch / "b"}, rules, 1, false, portion_bytes);
    build(scratch / ("two" + name), {scratch / "b", scratch / "a"}, rules, 4, false, portion_bytes);
    EXPECT_EQ(folder_content(scratch / ("one" + name)), folder_content(scratch / ("two" + name)));
  }
}

TEST(Build, ShardAndUnitSizesChangeNeitherTokensNorIdentity) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 40);
  BuildRules rules;
  rules.validation = 0.2;
  std::set<std::string> identities;
  std::set<std::vector<int32_t>> train, validation;
  size_t most = 0;
  for (const int64_t shard_tokens : {300, 1000, 1 << 20}) {
    for (const int64_t portion_bytes : {1, 2500, 1 << 20}) {
      rules.shard_tokens = shard_tokens;
      const Path out = scratch / fmt::format("out-{}-{}", shard_tokens, portion_bytes);
      const DatasetManifest m = build(out, {scratch / "text"}, rules, 2, false, portion_bytes).manifest;
      identities.insert(m.identity);
      most = std::max(most, m.splits[0].shards.size());
      const Dataset dataset = Dataset::open(out);
      train.insert(all_tokens(dataset.split("train")));
      validation.insert(all_tokens(dataset.split("validation")));
    }
  }
  EXPECT_GT(most, 20u);
  EXPECT_EQ(identities.size(), 1u);
  EXPECT_EQ(train.size(), 1u);
  EXPECT_EQ(validation.size(), 1u);
  rules.bos = true;
  EXPECT_FALSE(identities.contains(build(scratch / "bos", {scratch / "text"}, rules).manifest.identity));
}

TEST(Build, AMovedSourceCorrectsTheManifestAndKeepsTheShards) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 5);
  build(scratch / "out", {scratch / "text"});
  std::filesystem::rename(scratch / "text", scratch / "moved");
  EXPECT_TRUE(build(scratch / "out", {scratch / "moved"}).was_complete);
  EXPECT_EQ(Dataset::open(scratch / "out").manifest().sources[0].path, (scratch / "moved" / "doc-000.txt").string());
  build(scratch / "fresh", {scratch / "moved"});
  EXPECT_EQ(folder_content(scratch / "out"), folder_content(scratch / "fresh"));
}

TEST(Build, ADocumentIsHeldOutByItsContentWhateverStandsBesideIt) {
  const ScratchFolder scratch;
  write_corpus(scratch / "all", 400);
  for (int i = 0; i < 400; i += 2) {
    const std::string name = fmt::format("doc-{:03}.txt", i);
    write_text(scratch / "half" / ("moved-" + name), read_file(scratch / "all" / name));
  }
  BuildRules rules;
  rules.validation = 0.1;
  const auto held_out = [&](const char* text) {
    const Path out = scratch / (std::string("out-") + text);
    build(out, {scratch / text}, rules);
    const Dataset dataset = Dataset::open(out);
    const Split& split = dataset.split("validation");
    std::set<std::string> hashes;
    for (int64_t i = 0; i < split.documents(); ++i)
      hashes.insert(dataset.manifest().sources[static_cast<size_t>(split.origin(i).source)].hash);
    return hashes;
  };
  const auto of_all = held_out("all"), of_half = held_out("half");
  EXPECT_NEAR(static_cast<double>(of_all.size()), 40, 18);  // three standard deviations
  EXPECT_TRUE(std::includes(of_all.begin(), of_all.end(), of_half.begin(), of_half.end()));
  EXPECT_FALSE(of_half.empty());
}

TEST(Build, ASmallCorpusNeverLosesOneSideOfTheSplit) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 2);
  for (const double fraction : {1e-9, 0.999999}) {
    BuildRules rules;
    rules.validation = fraction;
    const DatasetManifest m = build(scratch / "out", {scratch / "text"}, rules, 1, true).manifest;
    EXPECT_EQ(m.find_split("train")->documents, 1);
    EXPECT_EQ(m.find_split("validation")->documents, 1);
  }
}

TEST(Build, OneDocumentCannotBeHeldOutUnlessItIsCut) {
  const ScratchFolder scratch;
  const std::string text = words(3, 5000);
  write_text(scratch / "book.txt", text);
  BuildRules rules;
  rules.validation = 0.2;
  const Error error = error_of([&] { build(scratch / "out", {scratch / "book.txt"}, rules); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "no document can be held out");

  rules.read.document_bytes = 300;
  build(scratch / "out", {scratch / "book.txt"}, rules);
  const Dataset dataset = Dataset::open(scratch / "out");
  std::map<int64_t, std::string> pieces;
  for (const char* name : {"train", "validation"}) {
    const Split& split = dataset.split(name);
    const auto tokens = all_tokens(split);
    for (int64_t i = 0; i < split.documents(); ++i) {
      std::string& piece = pieces[split.origin(i).source_offset];
      for (int64_t t = split.document_begin(i); t < split.document_begin(i + 1) - 1; ++t)
        piece += static_cast<char>(tokens[static_cast<size_t>(t)]);
      EXPECT_EQ(tokens[static_cast<size_t>(split.document_begin(i + 1) - 1)], 257);
    }
  }
  std::string joined;
  for (const auto& [offset, piece] : pieces) {
    EXPECT_EQ(offset, static_cast<int64_t>(joined.size()));
    joined += piece;
    if (joined.size() < text.size()) {
      EXPECT_TRUE(piece.size() >= 300 && piece.ends_with('\n')) << piece;
    }
  }
  EXPECT_EQ(joined, text);
}

TEST(Build, InvalidUtf8IsKeptAndCounted) {
  const ScratchFolder scratch;
  write_text(scratch / "text" / "good.txt", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n");
  write_text(scratch / "text" / "bad.txt", "caf\xe9 and \xed\xa0\x80\n");
  const DatasetManifest m = build(scratch / "out", {scratch / "text"}).manifest;
  EXPECT_EQ(m.records.invalid_utf8_documents, 1);
  EXPECT_EQ(m.records.invalid_utf8_bytes, 4);  // e9, and the three bytes of a surrogate
  const auto tokens = all_tokens(Dataset::open(scratch / "out").split("train"));
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 0xE9), 1);
}

TEST(Build, AFolderOfTextMayHoldItsOwnDataset) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 4);
  build(scratch / "text" / "tokens", {scratch / "text"});
  EXPECT_TRUE(build(scratch / "text" / "tokens", {scratch / "text"}).was_complete);
}

TEST(Build, TwoBuildsOfOneFolderDoNotMix) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 4);
  make_folders(scratch / "out");
  const auto lock = FileLock::try_lock(scratch / "out" / "build.lock");
  const Error error = error_of([&] { build(scratch / "out", {scratch / "text"}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "another build is writing " + (scratch / "out").string());
}

TEST(Build, EveryFileIsOnTheDiskBeforeItHasItsNameAndTheManifestComesLast) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 12);
  BuildRules rules;
  rules.shard_tokens = 1000;
  const auto calls = test::disk_calls([&] { build(scratch / "out", {scratch / "text"}, rules); });
  EXPECT_GE(test::expect_durable(calls), 3);  // at least two splits and the manifest
  Path last;
  for (const auto& [what, path] : calls)
    if (what == "rename") last = path;
  EXPECT_EQ(last.stem(), kManifestName);
}

TEST(Build, ACorpusWithoutTextIsAUserError) {
  const ScratchFolder scratch;
  make_folders(scratch / "text");
  Error error = error_of([&] { build(scratch / "out", {scratch / "text"}); });
  EXPECT_EQ(error.message(), "there is no text to build from");
  EXPECT_EQ(error.why(), "no file was found");
  write_text(scratch / "text" / "empty.txt", "");
  error = error_of([&] { build(scratch / "out", {scratch / "text"}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.why(), "found 1 file without a byte");
  error = error_of([&] { build(scratch / "out", {scratch / "missing"}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "cannot read " + (scratch / "missing").string());
  EXPECT_FALSE(path_exists(scratch / "out"));
}

TEST(Build, WrongRulesAreUserErrors) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 4);
  const auto message = [&](auto change) {
    BuildRules rules;
    change(rules);
    const Error error = error_of([&] { build(scratch / "out", {scratch / "text"}, rules); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message();
  };
  EXPECT_EQ(message([](BuildRules& r) { r.validation = 1; }), "--validation 1 is not a share");
  EXPECT_EQ(message([](BuildRules& r) { r.validation = -0.1; }), "--validation -0.1 is not a share");
  EXPECT_EQ(message([](BuildRules& r) { r.shard_tokens = 0; }), "--shard-tokens 0 is too small");
  EXPECT_EQ(message([](BuildRules& r) { r.read.document_bytes = -1; }), "--document-bytes -1 is negative");
  EXPECT_EQ(message([](BuildRules& r) { r.tokenizer = "words"; }), "there is no tokenizer \"words\"");
}

}  // namespace
}  // namespace hearth::data
