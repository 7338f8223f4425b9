// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/example.h"
#include "support/hearth_command.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::run_hearth;

TEST(VerifyCommand, OfAGoodCheckpointSaysWhatWasChecked) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("good. Every checksum is right: 7 tensors in")) << result.output;
}

TEST(VerifyCommand, OfADamagedCheckpointNamesEveryDamagedItemAndExitsWith3) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  const formats::Metadata metadata = Reader::open(folder).metadata();
  for (const formats::StoredTensor& tensor : metadata.tensors) {
    if (tensor.info.name != "cube" && tensor.info.name != "norm.weight") continue;
    const formats::Item& item = tensor.items[0];
    overwrite(folder / item.file, static_cast<size_t>(item.offset + 100), "damage");
  }
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("damaged: cube is damaged")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("damaged: norm.weight is damaged")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("2 problems")) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("tok_embeddings"))) << result.output;
}

TEST(VerifyCommand, OfATruncatedMetadataFileNamesIt) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  std::filesystem::resize_file(folder / ".metadata", 40);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("/.metadata is damaged: 40 bytes, expected")) << result.output;
}

TEST(VerifyCommand, WithoutAManifestSaysThatOnlyTheStructureWasChecked) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  remove_file(folder / kManifestFile);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("structure good")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no checksums of ours")) << result.output;
}

TEST(VerifyCommand, OfNothingIsAUserError) {
  EXPECT_EQ(run_hearth("verify /nowhere/step-00000001").exit_code, 2);
  EXPECT_EQ(run_hearth("verify").exit_code, 2);
}

}  // namespace
}  // namespace hearth::checkpoint
