#include <gtest/gtest.h>

#include "checkpoint/example.h"
#include "support/hearth_command.h"

namespace hearth::checkpoint {
namespace {

using test::run_hearth;

TEST(VerifyCommand, OfAGoodCheckpointSaysWhatWasChecked) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("good. Every checksum is right: 7 tensors in"), std::string::npos) << result.output;
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
  EXPECT_NE(result.output.find("damaged: cube is damaged"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("damaged: norm.weight is damaged"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("2 problems"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("tok_embeddings"), std::string::npos) << result.output;
}

TEST(VerifyCommand, OfATruncatedMetadataFileNamesIt) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  std::filesystem::resize_file(folder / ".metadata", 40);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.output.find("/.metadata is damaged: 40 bytes, expected"), std::string::npos) << result.output;
}

TEST(VerifyCommand, WithoutAManifestSaysThatOnlyTheStructureWasChecked) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  remove_file(folder / kManifestFile);
  const test::CommandResult result = run_hearth("verify " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("structure good"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("no checksums of ours"), std::string::npos) << result.output;
}

TEST(VerifyCommand, OfNothingIsAUserError) {
  EXPECT_EQ(run_hearth("verify /nowhere/step-00000001").exit_code, 2);
  EXPECT_EQ(run_hearth("verify").exit_code, 2);
}

}  // namespace
}  // namespace hearth::checkpoint
