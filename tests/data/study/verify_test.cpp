// SPDX-License-Identifier: Apache-2.0
#include "data/study/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;

TEST(Verify, NamesEveryDamagedBlockAndNothingElse) {
  const ScratchFolder scratch;
  const Path out = scratch / "out";
  write_text(scratch / "text" / "a.txt", words(1, 200'000));  // 400 kB of tokens: seven blocks
  write_text(scratch / "text" / "b.txt", words(2, 100));
  BuildRules rules;
  rules.shard_tokens = 100'000;
  build(out, {scratch / "text"}, rules);
  VerifyResult result = verify_dataset(out, 2);
  EXPECT_TRUE(result.damage.empty());
  EXPECT_EQ(result.bytes, static_cast<int64_t>(std::filesystem::file_size(out / "train-000000-0000.shard") +
                                               std::filesystem::file_size(out / "train-000000-0001.shard")));

  std::string bytes = read_file(out / "train-000000-0000.shard");
  for (const size_t byte : {128u + 70'000u, 128u + 330'000u}) bytes[byte] = static_cast<char>(bytes[byte] ^ 16);
  write_text(out / "train-000000-0000.shard", bytes);
  result = verify_dataset(out, 2);
  ASSERT_EQ(result.damage.size(), 2u);
  EXPECT_EQ(result.damage[0].shard, "train-000000-0000.shard");
  EXPECT_EQ(result.damage[0].description, "block 1 (bytes 65664 to 131200, column tokens) has a wrong checksum");
  EXPECT_TRUE(result.damage[1].description.starts_with("block 5 "));
}

TEST(Verify, FindsShardsThatAreMissingCutOrExchanged) {
  const ScratchFolder scratch;
  const Path out = scratch / "out";
  write_corpus(scratch / "text", 12);
  BuildRules rules;
  rules.shard_tokens = 500;
  build(out, {scratch / "text"}, rules);
  const std::string second = read_file(out / "train-000000-0001.shard");
  write_text(out / "train-000000-0000.shard", second);
  write_text(out / "train-000000-0001.shard", second.substr(0, second.size() / 2));
  remove_file(out / "train-000000-0002.shard");
  const auto damage = verify_dataset(out, 1).damage;
  ASSERT_EQ(damage.size(), 3u);
  EXPECT_EQ(damage[0].description, "it is whole, but not the shard that the manifest names");
  EXPECT_EQ(damage[1].description, fmt::format("it has {} bytes instead of {}", second.size() / 2, second.size()));
  EXPECT_EQ(damage[2].description, "it is missing");
}

}  // namespace
}  // namespace hearth::data
