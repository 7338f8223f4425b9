// SPDX-License-Identifier: Apache-2.0
// Sources that are not what they seem, through each command that reads sources.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hearth_command.h"
#include "support/text_file.h"

namespace hearth {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using test::CommandResult;
using test::run_hearth;
using test::ScratchFolder;
using test::shell_quoted;
using test::write_text;

constexpr const char* kPng = "\x89PNG\r\n\x1a\n";

TEST(DataKinds, WhatIsNotTextIsRefusedByBothCommandsAndReadWithAsText) {
  const ScratchFolder scratch;
  write_text(scratch / "in" / "a.txt", "plain words of a text");
  write_text(scratch / "in" / "b.png", kPng);
  for (const std::string command : {"data build --out ", "tokenizer train --vocab-size 260 --out "}) {
    const std::string words = command + (scratch / "out").string() + " " + (scratch / "in").string();
    const CommandResult refused = run_hearth(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("b.png is a PNG picture\n  why: Hearth reads text, JSON, CSV"));
    EXPECT_THAT(refused.output, HasSubstr("--exclude '*.png'"));
    for (const std::string more : {" --as-text", " --exclude '*.png'"}) {
      const CommandResult read = run_hearth(words + more);
      EXPECT_EQ(read.exit_code, 0) << read.output;
      std::filesystem::remove_all(scratch / "out");
    }
  }
}

TEST(DataKinds, WithAKeyJsonAndCsvAreReadAndTextIsRefused) {
  const ScratchFolder scratch;
  write_text(scratch / "in" / "a.json", "[{\"text\":\"first record\"},\n {\"text\":\"second record\"}]\n");
  write_text(scratch / "in" / "b.csv", "id,text\n1,\"third, record\"\n");
  const std::string in = (scratch / "in").string(), out = (scratch / "out").string();
  const CommandResult built = run_hearth("data build --text-key text --out " + out + " " + in);
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const std::string lines = (scratch / "got.jsonl").string();
  ASSERT_EQ(run_hearth("data export --to jsonl --out " + lines + " " + out).exit_code, 0);
  EXPECT_EQ(read_file(lines),
            "{\"text\":\"first record\"}\n{\"text\":\"second record\"}\n{\"text\":\"third, record\"}\n");
  write_text(scratch / "in" / "c.txt", "plain words");
  const CommandResult refused = run_hearth("data build --overwrite --text-key text --out " + out + " " + in);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("c.txt is plain text: it has no keys, and --text-key names one"));
  EXPECT_EQ(run_hearth("data build --overwrite --as-text --text-key text --out " + out + " " + in).exit_code, 0);
}

TEST(DataKinds, TheAdviceFitsTheFile) {
  const ScratchFolder scratch;
  const std::string out = (scratch / "out").string();
  const auto build = [&](const std::string& name, const std::string& content, const std::string& options = "") {
    write_text(scratch / name, content);
    return run_hearth(fmt::format("data build --overwrite --out {} {} {}", out, options, (scratch / name).string()));
  };
  CommandResult result = build("a.json", "[{\"body\": \"a\"}, {\"body\": \"b\"}]");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("a.json: line 1: it has no key \"text\": its keys are \"body\""),
                                   HasSubstr("read the file whole with --format text")));
  result = build("b.json", "[{\"text\": \"a\"},\n{\"text\": \"b\"},\n]");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, AllOf(HasSubstr("b.json: line 3: not JSON at line 3: a value is expected after the comma"),
                                   HasSubstr("leave out its rest with --on-error skip")));
  EXPECT_EQ(build("b.json", read_file(scratch / "b.json"), "--on-error skip").exit_code, 0);
  result = build("c.jsonl", "\"a\"\n\"b\"\n", "--text-key text");
  EXPECT_THAT(result.output, HasSubstr("c.jsonl: line 1: it is a string instead of a JSON object"));
  result = run_hearth("data build --out " + out + " s3://bucket/text.jsonl");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("s3://bucket/text.jsonl is in a store"));
  result = run_hearth("data build --out " + out + " /dev/null");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("/dev/null is neither a file nor a folder"), HasSubstr("write it to a file first")));
}

TEST(DataKinds, WhatAFolderHoldsBesideItsDataIsLeftOutAndSaid) {
  const ScratchFolder scratch;
  const Path clone = scratch / "clone";
  write_text(clone / "data" / "train.jsonl", "{\"text\":\"the only record\"}\n");
  write_text(clone / ".git" / "HEAD", "ref: refs/heads/main\n");
  write_text(clone / "README.md", "# Card\n");
  write_text(clone / "notes.txt", "plain words\n");
  const std::string out = (scratch / "out").string();
  const CommandResult built = run_hearth("data build --out " + out + " " + clone.string());
  EXPECT_THAT(built.output, HasSubstr("\nleft out of folders: 1 hidden (.git), 1 about the data (README.md)\n"));
  const std::string texts = "\nread whole as texts beside records: 1 (notes.txt)\n";
  EXPECT_THAT(built.output, HasSubstr(texts));
  const CommandResult inspected = run_hearth("data inspect " + out);
  EXPECT_THAT(inspected.output, AllOf(HasSubstr("2 sources\n"), HasSubstr("left out    2 names in folders")));
  const CommandResult trained =
      run_hearth(fmt::format("tokenizer train --vocab-size 260 --out {}.json {}", out, clone.string()));
  EXPECT_THAT(trained.output, AllOf(HasSubstr("left out of folders: 1 hidden (.git)"), HasSubstr(texts)));
  // Among texts alone they are texts like any other.
  write_text(scratch / "texts" / "one.txt", "plain words\n");
  write_text(scratch / "texts" / "README.md", "# Card\n");
  write_text(scratch / "texts" / "LICENSE", "words of a licence\n");
  const std::string about =
      "\nread as texts, although their names say that they are about the data: 2 (LICENSE, README.md); --exclude "
      "leaves them out\n";
  EXPECT_THAT(run_hearth(fmt::format("data build --out {}1 {}", out, (scratch / "texts").string())).output,
              HasSubstr(about));
  EXPECT_THAT(
      run_hearth(fmt::format("tokenizer train --vocab-size 260 --out {}1.json {}", out, (scratch / "texts").string()))
          .output,
      HasSubstr(about.substr(1)));
  // A pattern names files as a folder does.
  const CommandResult matched =
      run_hearth(fmt::format("data build --out {}2 {}", out, test::shell_quoted((clone / "*").string())));
  EXPECT_THAT(matched.output,
              AllOf(HasSubstr("left out of folders: 1 about the data (README.md)\n"), HasSubstr(texts)));
}

TEST(DataKinds, AByteOrderMarkIsNoPartOfAListAndOfTextsToEncode) {
  const ScratchFolder scratch;
  const std::string mark = "\xef\xbb\xbf", out = (scratch / "out").string();
  write_text(scratch / "x.txt", mark + "hi");
  write_text(scratch / "list", mark + "x.txt\n");
  const CommandResult built = run_hearth("data build --out " + out + " --source-list " + (scratch / "list").string());
  EXPECT_EQ(built.exit_code, 0) << built.output;
  EXPECT_EQ(run_hearth("tokenizer encode --eos none --tokenizer bytes " + (scratch / "x.txt").string()).output,
            "104 105\n");
}

TEST(DataKinds, ANameWithALineEndIsShownOnOneLine) {
  const ScratchFolder scratch;
  const Path odd = scratch / "in" / "a\nerror: x\x1b[31m.txt";
  write_text(odd, std::string(2000, 'x'));
  const std::string out = (scratch / "out").string(), in = (scratch / "in").string();
  ASSERT_EQ(run_hearth("data build --out " + out + " " + in).exit_code, 0);
  const std::string shown = "a\\nerror: x\\x1b[31m.txt";
  EXPECT_THAT(run_hearth("data inspect " + out).output, AllOf(HasSubstr(shown), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(run_hearth("data sample " + out).output, AllOf(HasSubstr(shown), Not(HasSubstr("\x1b"))));
  write_text(odd, kPng);
  const CommandResult refused = run_hearth("data build --overwrite --out " + out + " " + in);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr(shown + " is a PNG picture"), Not(HasSubstr("\x1b"))));
  const CommandResult missing = run_hearth("data build --out " + out + " " + shell_quoted("no\nfile"));
  EXPECT_THAT(missing.output, HasSubstr("cannot read no\\nfile"));
}

}  // namespace
}  // namespace hearth
