// SPDX-License-Identifier: Apache-2.0
// A checkpoint keeps the tokenizer that its model was trained with.
#include "base/error.h"

#include <gmock/gmock.h>

#include "checkpoint/verify.h"
#include "example.h"
#include "tokenizer/small_file.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

Path save_with_tokenizer(const Path& checkpoints) {
  const auto tensors = example_tensors();
  const Path temporary = temporary_folder(checkpoints, 100);
  begin_save(temporary);
  const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(tensors, 0, 1))};
  write_file_atomic(checkpoints / "given.json", test::small_tokenizer_file("</s>"));
  const auto tokenizer = tokenizer::open_tokenizer((checkpoints / "given.json").string());
  Manifest manifest = example_manifest(100, 1);
  manifest.tokenizer = tokenizer->name();
  manifest.tokenizer_hash = tokenizer->content_hash();
  manifest.tokenizer_file = tokenizer->file_content();
  manifest.eos = *tokenizer->eos();
  manifest.document_bos = true;
  const Path folder = step_folder(checkpoints, 100);
  commit(temporary, folder, items, manifest);
  return folder;
}

TEST(CheckpointTokenizer, IsReadFromTheFolderWithItsEos) {
  const test::ScratchFolder scratch;
  const Path folder = save_with_tokenizer(scratch);
  EXPECT_EQ(read_file(folder / "tokenizer.json"), test::small_tokenizer_file("</s>"));
  const Reader reader = Reader::open(folder);
  EXPECT_EQ(reader.manifest().eos, 257);
  EXPECT_EQ(reader.manifest().bos, -1);
  EXPECT_TRUE(reader.manifest().document_bos);
  EXPECT_EQ(reader.manifest().tokenizer_file, "");
  const auto tokenizer = reader.open_tokenizer();
  EXPECT_EQ(tokenizer->eos(), 257u);
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
}

TEST(CheckpointTokenizer, AnotherFileInItsPlaceIsDamage) {
  const test::ScratchFolder scratch;
  const Path folder = save_with_tokenizer(scratch);
  write_file_atomic(folder / "tokenizer.json", test::small_tokenizer_file("<s>"));
  ASSERT_EQ(verify_checkpoint(folder).problems.size(), 1u);
  EXPECT_THAT(verify_checkpoint(folder).problems[0],
              HasSubstr("is not the tokenizer that the manifest in its folder names"));
  write_file_atomic(folder / "tokenizer.json", "{");
  EXPECT_EQ(verify_checkpoint(folder).problems.size(), 1u);
  remove_file(folder / "tokenizer.json");
  ASSERT_EQ(verify_checkpoint(folder).problems.size(), 1u);
  EXPECT_THAT(verify_checkpoint(folder).problems[0], HasSubstr("is missing"));
}

// A manifest comes from elsewhere: its name must not lead out of the folder.
TEST(CheckpointTokenizer, ANameThatLeadsElsewhereIsDamage) {
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "tokenizer.json", test::small_tokenizer_file());
  make_folders(scratch / "in");
  for (const char* name : {"../tokenizer.json", "/etc/passwd", "", "tokenizer.json/"}) {
    try {
      tokenizer::open_kept_tokenizer(scratch / "in", name, "", {});
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged) << name;
    }
  }
}

}  // namespace
}  // namespace hearth::checkpoint
