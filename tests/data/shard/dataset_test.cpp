// SPDX-License-Identifier: Apache-2.0
#include "data/shard/dataset.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "data/corpus_folder.h"
#include "data/shard/shard_writer.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;

// 30 documents in many shards, and the same tokens read from the files.
class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    write_corpus(scratch_ / "text", 30);
    BuildRules rules;
    rules.shard_tokens = 1000;
    build(scratch_ / "out", {scratch_ / "text"}, rules);
    for (int i = 0; i < 30; ++i) {
      starts_.push_back(static_cast<int64_t>(expected_.size()));
      for (const char c : read_file(scratch_ / "text" / fmt::format("doc-{:03}.txt", i)))
        expected_.push_back(static_cast<uint8_t>(c));
      expected_.push_back(257);
    }
  }
  void damage(const std::string& shard, size_t byte) {
    std::string bytes = read_file(scratch_ / "out" / shard);
    bytes[byte] = static_cast<char>(bytes[byte] ^ 1);
    write_text(scratch_ / "out" / shard, bytes);
  }

  ScratchFolder scratch_;
  std::vector<int32_t> expected_;
  std::vector<int64_t> starts_;
};

TEST_F(DatasetTest, WindowsAcrossShardsHoldTheTokensOfTheFilesInOrder) {
  const Dataset dataset = Dataset::open(scratch_ / "out");
  const Split& split = dataset.split("train");
  EXPECT_GT(dataset.manifest().find_split("train")->shards.size(), 5u);
  ASSERT_EQ(split.tokens(), static_cast<int64_t>(expected_.size()));
  EXPECT_EQ(split.documents(), 30);
  EXPECT_EQ(split.text_bytes(), split.tokens() - 30);
  EXPECT_EQ(all_tokens(split), expected_);
  for (int64_t length : {int64_t{1}, int64_t{17}, int64_t{2500}}) {
    for (int64_t first = 0; first + length <= split.tokens(); first += 41) {
      std::vector<int32_t> window(static_cast<size_t>(length));
      split.read(first, window);
      ASSERT_TRUE(std::equal(window.begin(), window.end(), expected_.begin() + first)) << first << " " << length;
    }
  }
  split.read(split.tokens(), {});  // an empty read at the end
}

TEST_F(DatasetTest, EveryTokenIsLocatedInItsDocument) {
  const Dataset dataset = Dataset::open(scratch_ / "out");
  const Split& split = dataset.split("train");
  int64_t document = 0;
  for (int64_t token = 0; token < split.tokens(); ++token) {
    if (document + 1 < 30 && token == starts_[static_cast<size_t>(document) + 1]) ++document;
    const TokenPosition place = split.locate(token);
    ASSERT_EQ(place.document, document);
    ASSERT_EQ(place.offset, token - starts_[static_cast<size_t>(document)]);
  }
  EXPECT_EQ(split.document_begin(30), split.tokens());
  const auto& sources = dataset.manifest().sources;
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(split.document_begin(i), starts_[static_cast<size_t>(i)]);
    EXPECT_TRUE(sources[static_cast<size_t>(split.origin(i).source)].path.ends_with(fmt::format("doc-{:03}.txt", i)));
    EXPECT_EQ(split.origin(i).text_bytes, split.document_begin(i + 1) - split.document_begin(i) - 1);
  }
}

TEST_F(DatasetTest, DocumentStartsOfAnyWindowAreThoseOfTheFiles) {
  const Dataset dataset = Dataset::open(scratch_ / "out");
  const Split& split = dataset.split("train");
  for (int64_t first = 0; first < split.tokens(); first += 23) {
    for (const int64_t wanted : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{3000}}) {
      const int64_t count = std::min(wanted, split.tokens() - first);
      std::vector<int32_t> starts, expected;
      split.document_starts(first, count, starts);
      for (const int64_t start : starts_) {
        if (start >= first && start < first + count) expected.push_back(static_cast<int32_t>(start - first));
      }
      ASSERT_EQ(starts, expected) << first << " " << count;
    }
  }
}

TEST_F(DatasetTest, ReadingFromManyThreadsAtOnceGivesTheSame) {
  const Dataset dataset = Dataset::open(scratch_ / "out");
  std::vector<std::vector<int32_t>> results(8);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = all_tokens(dataset.split("train")); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected_);
}

TEST_F(DatasetTest, DamageIsMetWhenItsBlockIsTouchedAndNamesIt) {
  damage("train-000000-0002.shard", 128);  // the first token of the third shard
  const Dataset dataset = Dataset::open(scratch_ / "out");
  const Split& split = dataset.split("train");
  const auto& shards = dataset.manifest().find_split("train")->shards;
  std::vector<int32_t> window(10);
  split.read(0, window);
  const int64_t first = shards[0].tokens + shards[1].tokens;
  split.read(first - 10, window);
  for (int again = 0; again < 2; ++again) {
    const Error error = error_of([&] { split.read(first - 9, window); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_EQ(error.message(),
              fmt::format("shard {} is damaged", (scratch_ / "out" / "train-000000-0002.shard").string()));
    EXPECT_TRUE(error.why().starts_with("block 0 (bytes 128 to ")) << error.why();
  }
}

TEST_F(DatasetTest, AMissingCutOrForeignShardIsDamage) {
  const Path shard = scratch_ / "out" / "train-000000-0001.shard";
  const std::string good = read_file(shard);
  write_text(shard, good.substr(0, good.size() - 1));
  Error error = error_of([&] { Dataset::open(scratch_ / "out"); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_EQ(error.why(), fmt::format("it has {} bytes instead of {}", good.size() - 1, good.size()));
  remove_file(shard);
  error = error_of([&] { Dataset::open(scratch_ / "out"); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_EQ(error.message(), fmt::format("shard {} is missing", shard.string()));
}

// Whole, with the right size and the right counts, but with other text.
TEST_F(DatasetTest, AForeignShardOfTheSameSizeIsDamage) {
  for (int i = 0; i < 30; ++i) {
    const Path path = scratch_ / "text" / fmt::format("doc-{:03}.txt", i);
    std::string text = read_file(path);
    text[0] = 'X';
    write_text(path, text);
  }
  BuildRules rules;
  rules.shard_tokens = 1000;
  build(scratch_ / "other", {scratch_ / "text"}, rules);
  std::filesystem::copy_file(scratch_ / "other" / "train-000000-0001.shard",
                             scratch_ / "out" / "train-000000-0001.shard",
                             std::filesystem::copy_options::overwrite_existing);
  const Dataset dataset = Dataset::open(scratch_ / "out");
  const Error error = error_of([&] { all_tokens(dataset.split("train")); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_EQ(error.why(), "it is not the shard that the manifest names");
}

// Tokens of two bytes in blocks of 65,536 bytes: damage in the second block affects every window with a token in it.
TEST_F(DatasetTest, AWindowThatReachesOneTokenIntoADamagedBlockIsRefused) {
  write_text(scratch_ / "long" / "text.txt", words(1, 50'000));
  build(scratch_ / "long-out", {scratch_ / "long"});
  std::string bytes = read_file(scratch_ / "long-out" / "train-000000-0000.shard");
  bytes[128 + 65'536 + 1000] = static_cast<char>(bytes[128 + 65'536 + 1000] ^ 1);
  write_text(scratch_ / "long-out" / "train-000000-0000.shard", bytes);
  const Dataset dataset = Dataset::open(scratch_ / "long-out");
  const Split& split = dataset.split("train");
  std::vector<int32_t> window(100);
  split.read(32'768 - 100, window);
  EXPECT_NE(window.back(), 0);
  EXPECT_EQ(error_of([&] { split.read(32'768 - 99, window); }).code(), ExitCode::kDamaged);
}

TEST_F(DatasetTest, ASplitThatIsNotThereSaysHowToGetIt) {
  const Dataset dataset = Dataset::open(scratch_ / "out");
  EXPECT_TRUE(dataset.has_split("train"));
  EXPECT_FALSE(dataset.has_split("validation"));
  const Error error = error_of([&] { dataset.split("validation"); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.fix(), "build it with --validation 0.05");
}

// The error of reading a dataset whose shard of 40 tokens has these ends of documents.
template <typename Body>
std::string why_with_ends(const std::vector<uint64_t>& ends, Body body) {
  const ScratchFolder scratch;
  ShardWriter writer(scratch / "a.shard", std::string(32, '0'));
  writer.begin_column(kTokensColumn, ElementType::kU8, ColumnAxis::kToken);
  writer.append(std::vector<uint8_t>(40, 7));
  writer.begin_column(kDocumentEndsColumn, ElementType::kU64, ColumnAxis::kDocument);
  writer.append(ends);
  const ShardHeader header = writer.finish();
  DatasetManifest m;
  const auto documents = static_cast<int64_t>(ends.size()), size = static_cast<int64_t>(header.file_bytes);
  m.splits.push_back(
      {"train", documents, 40, 40, "", {{"a.shard", size, 40, documents, "", to_hex64(header.header_checksum)}}});
  write_text(scratch / "manifest.json", manifest_text(m));
  const Dataset dataset = Dataset::open(scratch.path());
  return error_of([&] { body(dataset.split("train")); }).why();
}

TEST(Dataset, DocumentEndsThatDoNotAscendToTheNumberOfTokensAreDamage) {
  const std::string why = "its column \"document_ends\" does not rise to the number of tokens";
  std::vector<int32_t> starts;
  EXPECT_EQ(why_with_ends({10, 20, 30}, [](const Split& split) { split.locate(35); }), why);
  EXPECT_EQ(why_with_ends({10, 45, 40}, [](const Split& split) { split.document_begin(2); }), why);
  EXPECT_EQ(why_with_ends({30, 5, 40}, [&](const Split& split) { split.document_starts(0, 40, starts); }), why);
  EXPECT_EQ(why_with_ends({10, 45, 40}, [](const Split& split) { split.document_begins(0, 3); }), why);
  EXPECT_EQ(why_with_ends({30, 5, 40}, [](const Split& split) { split.document_begins(0, 4); }), why);
  EXPECT_EQ(why_with_ends({30, 5, 40}, [](const Split& split) { split.document_begins(2, 1); }), why);
}

}  // namespace
}  // namespace hearth::data
