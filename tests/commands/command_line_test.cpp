// SPDX-License-Identifier: Apache-2.0
#include "commands/command_line.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"

namespace hearth::commands {
namespace {

struct Values {
  Path folder;
  std::string name = "bytes";
  int64_t count = 3;
  uint64_t seed = 0;
  double share = 0.5;
  bool fast = false;
  std::vector<std::string> sets;
  std::vector<int64_t> orders;
  Path first;
  std::vector<Path> rest;
};

constexpr Command kCommand = {"Data", "data build", "build it", "data build --out d x", nullptr};

CommandLine declare(Values& v, std::vector<std::string> words) {
  CommandLine line("hearth", kCommand, std::move(words));
  line.option("--out DIR", &v.folder, "folder to make").required();
  line.option("--name NAME", &v.name, one_of({"bytes", "words"}), "a name");
  line.option("--count N", &v.count, within(1, 10), "how many");
  line.option("--seed S", &v.seed, "a seed");
  line.option("--share X", &v.share, at_least(0), "a share");
  line.flag("--fast", &v.fast, "be fast");
  line.option("--set K=V", &v.sets, "more");
  line.option("--order N", &v.orders, within(1, 7), "orders");
  line.positional("FIRST", &v.first, "the first file");
  line.positional("PATH", &v.rest, "the others").optional();
  return line;
}

std::string error_of(const std::vector<std::string>& words) {
  Values v;
  try {
    (void)declare(v, words).parse();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.what();
  }
  return "no error";
}

TEST(CommandLine, FillsEveryTypeInAnyOrder) {
  Values v;
  EXPECT_TRUE(declare(v, {"a.txt",  "--count=7", "--fast",  "b",      "c",
                          "--set",  "x=1",       "--out",   "d",      "--set",
                          "y=2 3",  "--share",   "1e-3",    "--seed", "18446744073709551615",
                          "--name", "words",     "--order", "1",      "--order",
                          "7"})
                  .parse());
  EXPECT_EQ(v.folder, "d");
  EXPECT_EQ(v.name, "words");
  EXPECT_EQ(v.count, 7);
  EXPECT_EQ(v.seed, 18446744073709551615ull);
  EXPECT_EQ(v.share, 1e-3);
  EXPECT_TRUE(v.fast);
  EXPECT_EQ(v.sets, (std::vector<std::string>{"x=1", "y=2 3"}));
  EXPECT_EQ(v.orders, (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(v.first, "a.txt");
  EXPECT_EQ(v.rest, (std::vector<Path>{"b", "c"}));
}

TEST(CommandLine, WhatIsNotGivenKeepsItsDefault) {
  Values v;
  EXPECT_TRUE(declare(v, {"--out", "d", "a"}).parse());
  EXPECT_EQ(v.name, "bytes");
  EXPECT_EQ(v.count, 3);
  EXPECT_FALSE(v.fast);
  EXPECT_TRUE(v.rest.empty());
}

TEST(CommandLine, WordsAfterTwoDashesAreNoOptions) {
  Values v;
  EXPECT_TRUE(declare(v, {"--out", "d", "--", "--first", "--fast"}).parse());
  EXPECT_EQ(v.first, "--first");
  EXPECT_EQ(v.rest, std::vector<Path>{"--fast"});
  EXPECT_FALSE(v.fast);
}

TEST(CommandLine, WhatIsMissingIsNamedWithItsHelpAndAnExample) {
  EXPECT_EQ(
      error_of({"a"}),
      "error: hearth data build needs --out DIR: folder to make\n  fix: for example: hearth data build --out d x");
  EXPECT_EQ(error_of({"--out", "d"}),
            "error: hearth data build needs FIRST: the first file\n  fix: for example: hearth data build --out d x");
  EXPECT_EQ(error_of({"a", "--out"}), "error: --out needs a value\n  fix: write --out DIR: folder to make");
}

TEST(CommandLine, AnUnknownOptionNamesTheNearest) {
  EXPECT_EQ(error_of({"a", "--out", "d", "--cuont", "3"}),
            "error: hearth data build does not take \"--cuont\"\n"
            "  fix: did you mean --count? hearth data build --help lists its options");
  EXPECT_EQ(error_of({"a", "--out", "d", "--verbose"}),
            "error: hearth data build does not take \"--verbose\"\n"
            "  fix: hearth data build --help lists its options");
}

// Other programs' habits.
TEST(CommandLine, AWordThatIsNotTakenSaysWhatToWriteInstead) {
  const auto error = [](const std::vector<std::string>& words) {
    CommandLine line("hearth", kCommand, words);
    Path checkpoint, first;
    std::vector<std::string> sets;
    line.option("--checkpoint DIR", &checkpoint, "a checkpoint").required();
    line.option("--set KEY=VALUE", &sets, "another value");
    line.elsewhere({"--resume", "--load"}, "leave it out: it is always so");
    try {
      return line.parse() ? std::string("no error") : std::string("help");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(error({"runs/mine"}),
            "error: hearth data build does not take \"runs/mine\"\n"
            "  fix: write --checkpoint runs/mine; hearth data build --help lists its options");
  EXPECT_EQ(error({"--checkpoint", "a", "runs/mine"}),
            "error: hearth data build does not take \"runs/mine\"\n  fix: hearth data build --help lists its options");
  EXPECT_EQ(error({"--training.steps=20"}),
            "error: hearth data build does not take \"--training.steps=20\"\n"
            "  fix: write --set training.steps=20; hearth data build --help lists its options");
  EXPECT_EQ(error({"--training.steps", "20"}),
            "error: hearth data build does not take \"--training.steps\"\n"
            "  fix: write --set training.steps=VALUE; hearth data build --help lists its options");
  EXPECT_EQ(error({"--load", "x"}),
            "error: hearth data build does not take \"--load\"\n"
            "  fix: leave it out: it is always so; hearth data build --help lists its options");
}

TEST(CommandLine, WrongValuesSayWhatIsExpected) {
  EXPECT_EQ(error_of({"a", "--out", "d", "--count", "many"}), "error: --count = \"many\" is not a whole number");
  EXPECT_EQ(error_of({"a", "--out", "d", "--count", "3.5"}), "error: --count = \"3.5\" is not a whole number");
  EXPECT_EQ(error_of({"a", "--out", "d", "--count", ""}), "error: --count = \"\" is not a whole number");
  EXPECT_EQ(error_of({"a", "--out", "d", "--seed", "-1"}), "error: --seed = \"-1\" is not a whole number from 0 on");
  EXPECT_EQ(error_of({"a", "--out", "d", "--seed", "18446744073709551616"}),
            "error: --seed = 18446744073709551616 is too large\n  why: it is a whole number from 0 on");
  EXPECT_EQ(error_of({"a", "--out", "d", "--share", "half"}), "error: --share = \"half\" is not a number");
  EXPECT_EQ(error_of({"a", "--out", "d", "--count", "11"}),
            "error: --count = 11 is out of range\n  fix: give a number from 1 to 10");
  EXPECT_EQ(error_of({"a", "--out", "d", "--share", "-1"}),
            "error: --share = -1 is out of range\n  fix: give at least 0");
  EXPECT_EQ(error_of({"a", "--out", "d", "--share", "nan"}),
            "error: --share = nan is out of range\n  fix: give at least 0");
  EXPECT_EQ(error_of({"a", "--out", "d", "--order", "8"}),
            "error: --order = 8 is out of range\n  fix: give a number from 1 to 7");
  EXPECT_EQ(error_of({"a", "--out", "d", "--name", "letters"}),
            "error: --name = \"letters\" is not a choice\n  fix: give one of: bytes, words");
}

TEST(CommandLine, AnOptionThatTakesOneValueIsGivenOnce) {
  EXPECT_EQ(error_of({"a", "--out", "d", "--out", "e"}), "error: --out is given 2 times\n  fix: give it once");
}

TEST(CommandLine, HelpShowsUsageOptionsWithDefaultsAndTheExample) {
  Values v;
  EXPECT_EQ(declare(v, {}).help(),
            "usage: hearth data build --out DIR [OPTIONS] FIRST [PATH...]\n"
            "\n"
            "Build it.\n"
            "\n"
            "arguments:\n"
            "  FIRST    the first file\n"
            "  PATH...  the others\n"
            "\n"
            "options:\n"
            "  --out DIR    folder to make (required)\n"
            "  --name NAME  a name; one of bytes, words (default: bytes)\n"
            "  --count N    how many (default: 3)\n"
            "  --seed S     a seed (default: 0)\n"
            "  --share X    a share (default: 0.5)\n"
            "  --fast       be fast\n"
            "  --set K=V    more (may be repeated)\n"
            "  --order N    orders (may be repeated)\n"
            "  --help       show this text\n"
            "\n"
            "example:\n"
            "  hearth data build --out d x\n");
}

TEST(CommandLine, HelpIsAnsweredWhateverElseIsWrong) {
  Values v;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(declare(v, {"--count", "x", "--help"}).parse());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), declare(v, {}).help());
}

TEST(Text, WrapsAtBlanksAndNeverInAWord) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("incomprehensible word", 5), (std::vector<std::string>{"incomprehensible", "word"}));
  EXPECT_EQ(wrap("", 5), (std::vector<std::string>{""}));
}

TEST(Text, RowsNeverGoPastTheColumnsOfATerminal) {
  std::string help = "word";
  for (int i = 0; i < 60; ++i) help += " word";
  const std::string text = format_rows({{"short", help}, {"a left side that is much too long", help}});
  for (const std::string& line : split_lines(text)) EXPECT_LE(line.size(), kTextColumns) << line;
}

}  // namespace
}  // namespace hearth::commands
