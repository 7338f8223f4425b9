// SPDX-License-Identifier: Apache-2.0
// No damage goes unnoticed: every byte of every file is flipped, every file cut and removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "example.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<ExampleTensor> small_tensors() {
  return {example_tensor("layers.0.wq", DType::kFloat32, {3, 2}), example_tensor("norm", DType::kBFloat16, {5})};
}

void write_bytes(const Path& path, const std::string& bytes) {
  File file = File::create(path);
  file.write(bytes);
  file.close();
}

// The tensor that byte `at` of a data file belongs to.
std::string owner(const formats::Metadata& metadata, const std::string& file, int64_t at) {
  for (const formats::StoredTensor& tensor : metadata.tensors) {
    for (const formats::Item& item : tensor.items) {
      if (item.file == file && at >= item.offset && at < item.offset + item.length) return item.name;
    }
  }
  return "no item";
}

TEST(Damage, OfAnyByteOfAnyFileIsFoundAndNamesTheItemOrTheFile) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, small_tensors(), 100, 2);
  const formats::Metadata metadata = Reader::open(folder).metadata();
  ASSERT_TRUE(verify_checkpoint(folder).problems.empty());
  const std::vector<std::string> files = list_folder(folder);
  ASSERT_EQ(files, (std::vector<std::string>{".metadata", "__R_0.distcp", "__R_1.distcp", "hearth.json"}));
  for (const std::string& name : files) {
    const std::string good = read_file(folder / name);
    for (size_t i = 0; i < good.size(); ++i) {
      overwrite(folder / name, i, std::string(1, static_cast<char>(good[i] ^ (1 << (i % 8)))));
      const Verification found = verify_checkpoint(folder);
      ASSERT_EQ(found.problems.size(), 1u) << name << " byte " << i;
      const std::string expected =
          name.starts_with("__R") ? owner(metadata, name, static_cast<int64_t>(i)) : (folder / name).string();
      ASSERT_THAT(found.problems[0], HasSubstr(expected)) << found.problems[0];
      overwrite(folder / name, i, good.substr(i, 1));
    }
  }
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
}

TEST(Damage, ByAnyTruncationExtensionOrRemovalOfAFileIsFound) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, small_tensors(), 100, 2);
  for (const std::string& name : list_folder(folder)) {
    const std::string good = read_file(folder / name);
    for (size_t length = 0; length < good.size(); length += 7) {
      write_bytes(folder / name, good.substr(0, length));
      ASSERT_FALSE(verify_checkpoint(folder).problems.empty()) << name << " cut at " << length;
    }
    write_bytes(folder / name, good + '\0');
    EXPECT_FALSE(verify_checkpoint(folder).problems.empty()) << name;
    write_bytes(folder / name, good);
  }
  for (const std::string name : {"__R_0.distcp", "__R_1.distcp", ".metadata"}) {
    const std::string good = read_file(folder / name);
    remove_file(folder / name);
    const Verification found = verify_checkpoint(folder);
    ASSERT_EQ(found.problems.size(), 1u);
    EXPECT_THAT(found.problems[0], HasSubstr((folder / name).string() + " is missing")) << found.problems[0];
    write_bytes(folder / name, good);
  }
}

TEST(Damage, IsFoundWhenTheDamagedItemIsReadAndNotBefore) {
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = small_tensors();
  const Path folder = save_example(scratch, tensors, 100, 1);
  const formats::Item item = Reader::open(folder).metadata().tensors[1].items[0];
  std::string bytes = read_file(folder / item.file);
  const size_t at = static_cast<size_t>(item.offset + item.length / 2);
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  write_bytes(folder / item.file, bytes);

  Reader reader = Reader::open(folder);
  EXPECT_EQ(read_whole(reader, tensors[0]), tensors[0].bytes);
  try {
    read_whole(reader, tensors[1]);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.message(), HasSubstr("norm is damaged")) << e.what();
    EXPECT_THAT(e.why(), HasSubstr(to_hex64(item.checksum))) << e.what();
  }
}

TEST(Damage, OfTheNewestCheckpointIsReportedAndTheOneBeforeIsUsed) {
  const test::ScratchFolder scratch;
  for (const int64_t step : {100, 200, 300, 400}) save_example(scratch, small_tensors(), step, 1);
  EXPECT_EQ(newest_good(scratch).step, 400);
  // Three kinds: a flipped byte, a truncated .metadata, no manifest.
  std::string bytes = read_file(scratch / "step-00000400/__R_0.distcp");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_bytes(scratch / "step-00000400/__R_0.distcp", bytes);
  write_bytes(scratch / "step-00000300/.metadata", read_file(scratch / "step-00000300/.metadata").substr(0, 50));
  remove_file(scratch / "step-00000200/hearth.json");

  const NewestGood found = newest_good(scratch);
  EXPECT_EQ(found.step, 100);
  EXPECT_EQ(found.folder, scratch / "step-00000100");
  ASSERT_EQ(found.damaged.size(), 3u);
  EXPECT_EQ(found.damaged[0].step, 400);
  EXPECT_THAT(found.damaged[0].reason, HasSubstr("is damaged")) << found.damaged[0].reason;
  EXPECT_THAT(found.damaged[1].reason, HasSubstr(".metadata is damaged: 50 bytes")) << found.damaged[1].reason;
  EXPECT_THAT(found.damaged[2].reason, HasSubstr("hearth.json is missing")) << found.damaged[2].reason;
}

TEST(Damage, OfAPyTorchDirectoryIsFoundByItsCrc) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, small_tensors(), 100, 1);
  const formats::Item item = Reader::open(folder).metadata().tensors[0].items[0];
  remove_file(folder / kManifestFile);
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
  EXPECT_FALSE(verify_checkpoint(folder).has_manifest);
  std::string bytes = read_file(folder / item.file);
  const size_t data = bytes.find("archive/data/0") + 128;  // some byte of the tensor
  bytes[data & ~size_t{63}] ^= 1;
  write_bytes(folder / item.file, bytes);
  ASSERT_EQ(verify_checkpoint(folder).problems.size(), 1u);
  EXPECT_THAT(verify_checkpoint(folder).problems[0], HasSubstr("layers.0.wq"));
}

}  // namespace
}  // namespace hearth::checkpoint
