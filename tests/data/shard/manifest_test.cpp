// SPDX-License-Identifier: Apache-2.0
#include "data/shard/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

// The text of a built manifest.
std::string example() {
  const ScratchFolder scratch;
  write_corpus(scratch / "text", 6);
  BuildRules rules;
  rules.validation = 0.4;
  rules.shard_tokens = 500;
  build(scratch / "out", {scratch / "text"}, rules);
  return read_file(scratch / "out" / "manifest.json");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(DatasetManifest, ReadingAndWritingAgainGivesTheSameBytes) {
  const std::string text = example();
  EXPECT_EQ(manifest_text(parse_manifest(text, "m")), text);
}

TEST(DatasetManifest, AnotherVersionIsAUserError) {
  const std::string text = replaced(example(), "\"version\": 1", "\"version\": 4");
  const Error error = error_of([&] { parse_manifest(text, "data/manifest.json"); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "data/manifest.json has version 4");
  EXPECT_EQ(error.why(), "this hearth reads versions 1 to 3");
}

TEST(DatasetManifest, SomethingElseIsAUserError) {
  for (const char* text : {"{}", "[]", "3", "{\"format\": \"other\", \"version\": 1}"}) {
    const Error error = error_of([&] { parse_manifest(text, "m"); });
    EXPECT_EQ(error.code(), ExitCode::kUser) << text;
    EXPECT_EQ(error.message(), "m is not the manifest of a Hearth dataset");
  }
}

TEST(DatasetManifest, EveryFlippedByteAndEveryCutIsAnError) {
  const std::string text = example();
  for (size_t i = 0; i + 1 < text.size(); i += 3) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_THROW(parse_manifest(bad, "m"), Error) << i;
    EXPECT_THROW(parse_manifest(text.substr(0, i), "m"), Error) << i;
  }
  EXPECT_EQ(error_of([&] { parse_manifest("{\"format", "m"); }).code(), ExitCode::kDamaged);
  const Error edited = error_of([&] { parse_manifest(replaced(text, "\"documents\": ", "\"documents\": 9"), "m"); });
  EXPECT_EQ(edited.code(), ExitCode::kDamaged);
  EXPECT_EQ(edited.why(), "its checksum is wrong: it was changed after it was written");
}

// A made-up manifest with a good checksum.
TEST(DatasetManifest, AShardNameCannotLeadOutOfTheFolder) {
  for (const char* name : {"../secret", "/etc/passwd", "", ".hidden", "a/b"}) {
    DatasetManifest m;
    m.splits.push_back({"train", 0, 0, 0, "", {{name, 0, 0, 0, "", ""}}});
    const Error error = error_of([&] { parse_manifest(manifest_text(m), "m"); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged) << name;
  }
}

TEST(DatasetManifest, AShardCannotReferToASourceThatIsNotListed) {
  for (const bool tokens : {false, true}) {
    DatasetManifest m = parse_manifest(example(), "m");
    ShardEntry& shard = m.splits[0].shards[0];
    m.merged.push_back({m.identity, m.build, 1, m.rules});
    m.sources.back().size_bytes = 1 << 20;  // room for the tokens
    const auto count = static_cast<int64_t>(m.sources.size());
    (tokens ? shard.tokens_in : shard.first_source) = count - 1;
    EXPECT_EQ(manifest_text(parse_manifest(manifest_text(m), "m")), manifest_text(m));
    (tokens ? shard.tokens_in : shard.first_source) = count + 1;
    const Error e = error_of([&] { parse_manifest(manifest_text(m), "m"); });
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.why(), HasSubstr("refers to a missing source")) << e.why();
  }
}

TEST(DatasetManifest, CountsThatDoNotAddUpAreDamage) {
  DatasetManifest m;
  m.splits.push_back({"train", 1, 10, 9, "", {{"a.shard", 100, 9, 1, "", ""}}});
  const Error error = error_of([&] { parse_manifest(manifest_text(m), "m"); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_EQ(error.why(), "the shards of split \"train\" do not add up to its counts");

  // Nor do counts with a sum that overflows: 2^62 four times.
  const int64_t huge = int64_t{1} << 62;
  m.splits[0] = {"train", 0, 0, 0, "", std::vector<ShardEntry>(4, {"a.shard", huge, huge, 0, "", ""})};
  EXPECT_EQ(error_of([&] { parse_manifest(manifest_text(m), "m"); }).why(), error.why());
}

// As version 0.1.0 wrote it, except the checksum, which is computed here.
TEST(DatasetManifest, OneFromBeforeSourcesHadFormatsIsRead) {
  std::string text = R"({
  "format": "hearth dataset",
  "version": 1,
  "identity": "0123456789abcdef0123456789abcdef",
  "tokenizer": {"name": "bytes", "hash": "2105be2c4cfaa69af2fc47a560700c5c", "vocab_size": 258, "bos": 256, "eos": 257},
  "options": {"bos": false, "eos": true, "validation": 0.1, "document_bytes": 77, "shard_tokens": 500},
  "counts": {"links_resolved": 1, "duplicates_dropped": 2, "empty_dropped": 3, "skipped": 4, "invalid_utf8_files": 5,
             "invalid_utf8_bytes": 6},
  "splits": [{"name": "train", "documents": 1, "tokens": 4, "text_bytes": 3, "shards": [{"file": "train-000000-0000.shard",
    "size_bytes": 900, "tokens": 4, "documents": 1, "identity": "", "header_checksum": ""}]}],
  "sources": [{"path": "a", "real_path": "/a", "size_bytes": 3, "xxh3_128": "00"}])";
  text += ",\n  \"checksum\": \"" + to_hex64(xxh3_64(text)) + "\"\n}\n";
  const DatasetManifest m = parse_manifest(text, "m");
  EXPECT_EQ(m.rules.read.document_bytes, 77);
  EXPECT_EQ(m.rules.on_error, OnError::kStop);
  EXPECT_EQ(m.records.invalid_utf8_documents, 5);
  EXPECT_EQ(m.records.invalid_utf8_bytes, 6);
  EXPECT_EQ(m.sources[0].format, Format::kText);
  EXPECT_EQ(m.splits[0].shards[0].file, "train-000000-0000.shard");
  EXPECT_EQ(m.build, "");
}

TEST(DatasetManifest, AFolderWithoutOneIsNoDataset) {
  const ScratchFolder scratch;
  const Error error = error_of([&] { read_manifest(scratch.path()); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), scratch.path().string() + " holds no dataset");
}

}  // namespace
}  // namespace hearth::data
