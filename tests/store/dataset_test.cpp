// SPDX-License-Identifier: Apache-2.0
// Datasets in a store, read through the cache of this host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/copy_tree.h"
#include "base/error.h"
#include "base/object_cache.h"
#include "data/shard/dataset.h"
#include "s3_server.h"
#include "support/errors.h"
#include "support/hearth_command.h"

namespace hearth::data {
namespace {

using test::error_of;
using test::S3Server;
using testing::HasSubstr;

// Restores the environment.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

class StoredDataset : public testing::Test {
 protected:
  // About ten shards of bytes, here and in the store.
  void SetUp() override {
    HEARTH_NEEDS_STORE();
    std::string text;
    for (int i = 0; i < 4000; ++i) text += fmt::format("{{\"text\": \"document {} of {}\"}}\n", i, i * i);
    test::write_text(scratch_ / "text.jsonl", text);
    const test::CommandResult built =
        test::run_hearth(fmt::format("data build --tokenizer bytes --shard-tokens 20000 --out {} {}", local().string(),
                                     (scratch_ / "text.jsonl").string()));
    ASSERT_EQ(built.exit_code, 0) << built.output;
    remote_ = fmt::format("s3://bucket/{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    CopyProgress progress;
    copy_tree(local(), remote_, progress);
    cache_.emplace("HEARTH_CACHE", (scratch_ / "cache").string());
  }
  Path local() const { return scratch_ / "data"; }
  Path cache() const { return scratch_ / "cache"; }

  // Both say the same about parts all over the split.
  void expect_same(const Split& theirs) const {
    const Dataset ours = Dataset::open(local());
    const Split& split = ours.split("train");
    ASSERT_EQ(split.tokens(), theirs.tokens());
    std::vector<int32_t> a(500), b(500);
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t first = i * 7919 % (split.tokens() - 500);
      split.read(first, a);
      theirs.read(first, b);
      EXPECT_EQ(a, b) << first;
      EXPECT_EQ(split.document_begin(i * 37), theirs.document_begin(i * 37));
      EXPECT_EQ(split.locate(first).offset, theirs.locate(first).offset);
    }
  }

  test::ScratchFolder scratch_;
  Path remote_;
  std::optional<Variable> cache_;
};

TEST_F(StoredDataset, HasTheTokensOfTheFolder) {
  if (IsSkipped()) return;
  const Dataset dataset = Dataset::open(remote_);
  ASSERT_GT(dataset.manifest().splits.at(0).shards.size(), 4);
  S3Server::get().take_log();
  expect_same(dataset.split("train"));
  EXPECT_GT(folder_bytes(cache()), 0);
  // A second reader on this host takes the copies.
  S3Server::get().take_log();
  expect_same(Dataset::open(remote_).split("train"));
  for (const std::string& line : S3Server::get().take_log())
    if (line.starts_with("GET") && line.find(".shard") != std::string::npos) ADD_FAILURE() << line;
  const test::CommandResult verify = test::run_hearth("data verify " + remote_.string());
  EXPECT_EQ(verify.exit_code, 0) << verify.output;
}

TEST_F(StoredDataset, StaysBelowTheLimitOfTheCache) {
  if (IsSkipped()) return;
  const Variable limit("HEARTH_CACHE_LIMIT", "100kB");
  const Dataset dataset = Dataset::open(remote_);
  int64_t most = 0, whole = 0;
  for (const ShardEntry& shard : dataset.manifest().splits.at(0).shards) whole += shard.size_bytes;
  ASSERT_GT(whole, 200'000);
  std::vector<int32_t> part(100);
  for (int64_t i = 0; i < 40; ++i) {
    dataset.split("train").read(i * 9973 % (dataset.split("train").tokens() - 100), part);
    most = std::max(most, folder_bytes(cache()));
  }
  EXPECT_LE(most, 100'000);
  expect_same(dataset.split("train"));
}

TEST_F(StoredDataset, AShardAboveTheLimitIsAnError) {
  if (IsSkipped()) return;
  const Variable limit("HEARTH_CACHE_LIMIT", "1kB");
  const Dataset dataset = Dataset::open(remote_);
  std::vector<int32_t> part(100);
  const Error error = error_of([&] { dataset.split("train").read(0, part); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(".shard"), HasSubstr("HEARTH_CACHE_LIMIT")));
}

TEST_F(StoredDataset, AFlipOnTheWayIsHealedAndOneInTheStoreIsNot) {
  if (IsSkipped()) return;
  S3Server& server = S3Server::get();
  server.set_faults("GET shard 1 1 rflip");
  expect_same(Dataset::open(remote_).split("train"));

  const Dataset dataset = Dataset::open(remote_);
  const std::string name = dataset.manifest().splits.at(0).shards.at(0).file;
  std::string content = read_file(remote_ / name);
  content[content.size() / 2] ^= 4;
  remove_file(remote_ / name);
  write_file_atomic(remote_ / name, content);
  std::vector<int32_t> part(100);
  const Error error = error_of([&] { dataset.split("train").read(0, part); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.what(), HasSubstr(name));
  EXPECT_EQ(test::run_hearth("data verify " + remote_.string()).exit_code, 3);
}

TEST_F(StoredDataset, AMissingShardIsNamedAtOnce) {
  if (IsSkipped()) return;
  const std::string name = Dataset::open(remote_).manifest().splits.at(0).shards.at(1).file;
  remove_file(remote_ / name);
  const Error error = error_of([&] { Dataset::open(remote_); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.what(), HasSubstr(name));
}

}  // namespace
}  // namespace hearth::data
