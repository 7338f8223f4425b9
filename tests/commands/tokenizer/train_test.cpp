// SPDX-License-Identifier: Apache-2.0
// hearth tokenizer train, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/environment.h"

namespace hearth::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class TokenizerTrain : public testing::Test {
 protected:
  void SetUp() override {
    make_folders(scratch_ / "text");
    for (int file = 0; file < 40; ++file) {
      std::string text;
      for (int line = 0; line < 200; ++line)
        text += "The " + std::to_string(file * 7 % 13) + " quick brown foxes jump over " + std::to_string(line) + "\n";
      write_file_atomic(scratch_ / "text" / Path(std::to_string(file) + ".txt"), text);
    }
  }
  CommandResult train(const std::string& options) {
    return run_command(hearth_binary() + " tokenizer train " + options + " " + (scratch_ / "text").string());
  }
  std::string out(const std::string& name) { return "--out " + (scratch_ / name).string(); }
  ScratchFolder scratch_;
};

TEST_F(TokenizerTrain, GivesTheSameFileForAnyNumberOfThreads) {
  const CommandResult one = train("--vocab-size 300 --threads 1 " + out("1.json"));
  EXPECT_EQ(one.exit_code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("300 ids (2 special tokens, 256 bytes, 42 merges)")) << one.output;
  EXPECT_EQ(train("--vocab-size 300 --threads 4 " + out("4.json")).exit_code, 0);
  EXPECT_EQ(read_file(scratch_ / "1.json"), read_file(scratch_ / "4.json"));
}

TEST_F(TokenizerTrain, LeavesOutWhatIsHeldOut) {
  // Bytes are stored as two each. "zyx" is in one document only: it is merged exactly if that document is not held out.
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "zyx ";
  write_file_atomic(scratch_ / "text" / "z.txt", text);
  ASSERT_EQ(run_command(hearth_binary() + " data build --tokenizer bytes --validation 0.5 --out " +
                        (scratch_ / "data").string() + " " + (scratch_ / "text").string())
                .exit_code,
            0);
  const CommandResult validation =
      run_command("grep -aPqc 'z\\x00y\\x00x' " + (scratch_ / "data").string() + "/validation*.shard");
  ASSERT_EQ(validation.exit_code, 0) << "the document was meant to be held out; give it another content";
  EXPECT_EQ(train("--vocab-size 400 --validation 0.5 " + out("t.json")).exit_code, 0);
  EXPECT_THAT(read_file(scratch_ / "t.json"), Not(HasSubstr("\"zyx\"")));
  EXPECT_EQ(train("--vocab-size 400 " + out("all.json")).exit_code, 0);
  EXPECT_THAT(read_file(scratch_ / "all.json"), HasSubstr("\"zyx\""));
}

TEST_F(TokenizerTrain, ReadsTheSourcesThatDataBuildReads) {
  std::string lines;
  for (int file = 0; file < 40; ++file) {
    std::string text = read_file(scratch_ / "text" / Path(std::to_string(file) + ".txt"));
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
    lines += "{\"meta\": {\"body\": \"" + text + "\"}}\n";
  }
  write_file_atomic(scratch_ / "lines.jsonl", lines);
  EXPECT_EQ(train("--vocab-size 300 " + out("text.json")).exit_code, 0);
  const std::string command = hearth_binary() + " tokenizer train --vocab-size 300 ";
  const CommandResult result =
      run_command(command + "--text-key meta.body " + out("lines.json") + " '" + (scratch_ / "*.jsonl").string() + "'");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(read_file(scratch_ / "lines.json"), read_file(scratch_ / "text.json"));
  const CommandResult wrong = run_command(command + out("no.json") + " " + (scratch_ / "lines.jsonl").string());
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output;  // no key "text"
  EXPECT_THAT(wrong.output, HasSubstr("line 1")) << wrong.output;
}

TEST_F(TokenizerTrain, NeverReplacesAFileUnasked) {
  EXPECT_EQ(train("--vocab-size 300 " + out("t.json")).exit_code, 0);
  const std::string before = read_file(scratch_ / "t.json");
  const CommandResult again = train("--vocab-size 310 " + out("t.json"));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.output, HasSubstr("exists already")) << again.output;
  EXPECT_EQ(read_file(scratch_ / "t.json"), before);
  EXPECT_EQ(train("--vocab-size 310 --overwrite " + out("t.json")).exit_code, 0);
  EXPECT_NE(read_file(scratch_ / "t.json"), before);
}

TEST_F(TokenizerTrain, SaysWhereTheTextHasNoMorePairs) {
  const CommandResult result = train("--vocab-size 50000 --min-frequency 100 " + out("t.json"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("no other pair occurs 100 times")) << result.output;
  EXPECT_EQ(train("--vocab-size 100 " + out("small.json")).exit_code, 2);
}

}  // namespace
}  // namespace hearth::test
