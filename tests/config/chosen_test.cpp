// SPDX-License-Identifier: Apache-2.0
#include "config/chosen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/environment.h"

namespace hearth::config {
namespace {

using testing::HasSubstr;
using testing::Not;

using Lines = std::vector<std::string>;
using Keys = std::vector<ChosenKey>;

LoadResult read(const std::string& text, const Lines& sets = {}) {
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "run.toml", text);
  return read_run(scratch / "run.toml", sets);
}

TEST(Chosen, KeysAreThoseThatAFileOrSetGivesAnotherValueThanTheDefault) {
  const LoadResult run = read(
      "[training]\nseq_len = 64\nmax_norm = 1.0\n[lr_scheduler]\nwarmup_fraction = 0.5\n[[data.source]]\npath = "
      "\"d\"\n[[optimizer.group]]\npattern = \"norm\"\n"
      "[model]\nflavor = \"8B\"\n",
      {"optimizer.lr=0.5", "checkpoint.extra_steps=[1, 20]"});
  ASSERT_NE(run.config.model.dim, Model{}.dim) << "the flavor says so";
  EXPECT_EQ(chosen_keys(run), (Keys{{"model", "flavor = \"8B\""},
                                    {"optimizer", "lr = 0.5"},
                                    {"lr_scheduler", "warmup_fraction = 0.5"},
                                    {"training", "seq_len = 64"},
                                    {"checkpoint", "extra_steps = [1, 20]"},
                                    {"optimizer.group.0", "pattern = \"norm\""}}));
  RunConfig made;
  made.model.dim = 32;
  EXPECT_EQ(chosen_keys(without_file(made)), (Keys{{"model", "dim = 32"}}));
}

TEST(Chosen, LinesHoldAllThatFitsAndSayHowManyDoNot) {
  const Keys keys = {{"a", "b = 22"}, {"a", "c = 333"}, {"d", "e = 4444"}, {"d", "f = 55555"}, {"d", "g = 666"}};
  EXPECT_EQ(chosen_lines(keys, 100, 3), Lines{"a: b = 22, c = 333; d: e = 4444, f = 55555, g = 666"});
  EXPECT_EQ(chosen_lines(keys, 22, 3), (Lines{"a: b = 22, c = 333;", "d: e = 4444,", "f = 55555, g = 666"}));
  EXPECT_EQ(chosen_lines(keys, 22, 2), (Lines{"a: b = 22, c = 333;", "d: e = ..., and 2 more"}));
  EXPECT_EQ(chosen_lines(Keys{{"job", "description = \"much too long\""}}, 20, 1), Lines{"job: description ..."});
  EXPECT_EQ(chosen_lines({}, 10, 1), Lines{});
}

// At the start of every recipe, all of its keys fit into the lines.
TEST(Chosen, KeysOfEveryRecipeFit) {
  size_t recipes = 0;
  for (const auto& file : std::filesystem::directory_iterator(test::source_path("configs"))) {
    if (file.path().extension() != ".toml") continue;
    ++recipes;
    const Lines lines = chosen_lines(chosen_keys(read_run(file.path(), {})), 104, 8);
    EXPECT_LE(lines.size(), 8u);
    EXPECT_THAT(lines.back(), Not(HasSubstr(" more"))) << file.path() << ": " << lines.back();
  }
  EXPECT_GT(recipes, 20u);
}

}  // namespace
}  // namespace hearth::config
