// SPDX-License-Identifier: Apache-2.0
// What ranks compare of the weights that they begin with.
#include "run/same_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "support/environment.h"
#include "support/text_file.h"

namespace hearth::run {
namespace {

std::string identity_of(const Path& folder) { return weights_found(folder, {}).at(0).identity; }

TEST(SameWeights, AreToldApartByEveryByteOfASmallFolder) {
  const test::ScratchFolder scratch;
  const Path file = scratch / "model.safetensors";
  std::string bytes(300'000, 'a');
  test::write_text(file, bytes);
  const std::string first = identity_of(scratch.path());
  for (const size_t at : {0UL, 4'500UL, 150'001UL, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[at] = 'b';
    test::write_text(file, changed);
    EXPECT_NE(identity_of(scratch.path()), first) << at;
  }
  test::write_text(file, bytes);
  EXPECT_EQ(identity_of(scratch.path()), first);
  test::write_text(scratch / "config.json", "{}");
  EXPECT_NE(identity_of(scratch.path()), first);
}

TEST(SameWeights, AreToldApartByEachTensorOfALargeFolder) {
  const test::ScratchFolder scratch;
  const Path file = scratch / "model.safetensors";
  test::write_text(file, "begin");
  std::filesystem::resize_file(file, 400 << 20);  // takes no space
  const std::string first = identity_of(scratch.path());
  std::FILE* const out = std::fopen(file.c_str(), "r+b");
  std::fseek(out, (101 << 20) + 12345, SEEK_SET);
  const std::string tensor(4 << 20, 'x');
  std::fwrite(tensor.data(), 1, tensor.size(), out);
  std::fclose(out);
  EXPECT_NE(identity_of(scratch.path()), first);
}

// Hugging Face's downloads leave files with their times, on each host its own.
TEST(SameWeights, AreTheSameWhateverADownloadLeavesBesideThem) {
  const test::ScratchFolder scratch;
  test::write_text(scratch / "model.safetensors", "weights");
  const std::string first = identity_of(scratch.path());
  make_folders(scratch / ".cache" / "huggingface");
  test::write_text(scratch / ".cache" / "huggingface" / "config.json.metadata", "1764262222.5");
  test::write_text(scratch / "README.md", "A model.");
  test::write_text(scratch / ".gitattributes", "*.bin");
  EXPECT_EQ(identity_of(scratch.path()), first);
  test::write_text(scratch / ".metadata", "of DCP");
  EXPECT_NE(identity_of(scratch.path()), first);
}

TEST(SameWeights, OfACheckpointThatAnotherHostShowsLateAreWaitedFor) {
  const test::ScratchFolder scratch;
  const Path own = scratch / "step-00000010";
  std::thread other([&] {
    make_folders(scratch / "new");
    test::write_text(scratch / "new" / "hearth.json", "{}");
    std::filesystem::rename(scratch / "new", own);
  });
  EXPECT_EQ(weights_found(own, {}).at(0).path, own.string());
  other.join();
}

}  // namespace
}  // namespace hearth::run
