// SPDX-License-Identifier: Apache-2.0
// hearth data pack: output and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include "base/file.h"
#include "data/formats/arrow_library.h"
#include "support/environment.h"
#include "support/text_file.h"

namespace hearth {
namespace {

using testing::HasSubstr;

using test::write_text;

struct Corpus {
  test::ScratchFolder scratch;
  Corpus() { write_text(scratch / "x.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"threes\"}\n"); }
  std::string at(const std::string& name) const { return (scratch / name).string(); }
  test::CommandResult run(const std::string& line) const {
    return test::run_command(test::hearth_binary() + " data " + line);
  }
};

TEST(DataPack, TextIsRefusedWithTheCommandThatMakesTokensOfIt) {
  const Corpus c;
  for (const std::string& path : {c.at("x.jsonl"), c.scratch.path().string()}) {
    const auto raw = c.run(fmt::format("pack --length 4 --out {} {}", c.at("out"), path));
    EXPECT_EQ(raw.exit_code, 2);
    EXPECT_THAT(raw.output, HasSubstr("is not a dataset")) << raw.output;
    EXPECT_THAT(raw.output, HasSubstr("hearth data build --out DATA")) << raw.output;
  }
  const auto missing = c.run(fmt::format("pack --length 4 --out {} {}", c.at("out"), c.at("nowhere")));
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(c.run("pack --length 0 --out x y").exit_code, 2);
  EXPECT_EQ(c.run("pack --length 4 --drop-tails -1 --out x y").exit_code, 2);
}

TEST(DataPack, SaysWhatWasDroppedAndWhatWasFilledUp) {
  if (!path_exists(Path(HEARTH_BIN_DIR) / data::kArrowObject)) GTEST_SKIP() << "built without Arrow";
  const Corpus c;
  ASSERT_EQ(c.run(fmt::format("build --out {} {}", c.at("data"), c.at("x.jsonl"))).exit_code, 0);
  // 15 tokens, including EOS; in pairs 8 and 7.
  const auto all = c.run(fmt::format("pack --length 4 --to save-to-disk --out {} {}", c.at("out"), c.at("data")));
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, HasSubstr("wrote 4 rows of 4 tokens from 3 documents of train")) << all.output;
  EXPECT_THAT(all.output, HasSubstr("ends with 1 position of padding (id 257")) << all.output;
  const auto there = c.run(fmt::format("pack --length 4 --out {} {}", c.at("out"), c.at("data")));
  EXPECT_EQ(there.exit_code, 2);
  EXPECT_THAT(there.output, HasSubstr("exists already")) << there.output;
  const auto tails =
      c.run(fmt::format("pack --length 4 --drop-tails 2 --overwrite --out {} {}", c.at("out"), c.at("data")));
  EXPECT_EQ(tails.exit_code, 0);
  EXPECT_THAT(tails.output, HasSubstr("dropped 3 of 15 tokens")) << tails.output;
  write_text(c.scratch / "file", "dear");
  const auto file = c.run(fmt::format("pack --length 4 --overwrite --out {} {}", c.at("file"), c.at("data")));
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.output, HasSubstr("is a file that holds something else")) << file.output;
}

}  // namespace
}  // namespace hearth
