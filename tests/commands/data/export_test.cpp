// SPDX-License-Identifier: Apache-2.0
// hearth data export: refused folders, and replaced ones.
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

struct Exports {
  test::ScratchFolder scratch;
  Exports() {
    write_text(scratch / "x.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    const auto built = run(fmt::format("data build --out {} {}", at("data"), at("x.jsonl")));
    EXPECT_EQ(built.exit_code, 0) << built.output;
  }
  std::string at(const std::string& name) const { return (scratch / name).string(); }
  test::CommandResult run(const std::string& line) const {
    return test::run_command(test::hearth_binary() + " " + line);
  }
  test::CommandResult to(const std::string& format, const std::string& name, const std::string& more = "") const {
    return run(fmt::format("data export {} --to {} --out {} {}", at("data"), format, at(name), more));
  }
};

TEST(DataExport, ColumnsGoWithSaveToDiskAndEachOnce) {
  const Exports e;
  const auto elsewhere = e.to("jsonl", "out.jsonl", "--column text");
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.output, HasSubstr("--column does not go with --to jsonl")) << elsewhere.output;
  const auto twice = e.to("save-to-disk", "out", "--column text --column text");
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.output, HasSubstr("names a column twice")) << twice.output;
  EXPECT_EQ(e.to("save-to-disk", "out", "--column words").exit_code, 2);
}

TEST(DataExport, WhatIsThereIsReplacedOnlyWhenAskedAndAFolderOfOtherThingsNever) {
  if (!path_exists(Path(HEARTH_BIN_DIR) / data::kArrowObject)) GTEST_SKIP() << "built without Arrow";
  const Exports e;
  EXPECT_EQ(e.to("save-to-disk", "out").exit_code, 0);
  const std::string ids = read_file(e.scratch.path() / "out" / "dataset_info.json");
  const auto again = e.to("save-to-disk", "out", "--column text");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.output, HasSubstr("exists already")) << again.output;
  EXPECT_EQ(read_file(e.scratch.path() / "out" / "dataset_info.json"), ids);
  const auto asked = e.to("save-to-disk", "out", "--column text --overwrite");
  EXPECT_EQ(asked.exit_code, 0) << asked.output;
  EXPECT_NE(read_file(e.scratch.path() / "out" / "dataset_info.json"), ids);

  write_text(e.scratch.path() / "home" / "letters.txt", "dear");
  for (const char* format : {"save-to-disk", "jsonl"}) {
    const auto other = e.to(format, "home", "--overwrite");
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.output, HasSubstr("is a folder that holds something else")) << other.output;
  }
  EXPECT_EQ(read_file(e.scratch.path() / "home" / "letters.txt"), "dear");
}

}  // namespace
}  // namespace hearth
