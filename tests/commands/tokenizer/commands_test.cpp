// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer ...`, and datasets that keep their tokenizer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/shard/dataset.h"
#include "support/hearth_command.h"
#include "tokenizer/small_file.h"

namespace hearth::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using test::CommandResult;
using test::run_hearth;
using test::ScratchFolder;

// Only the standard output.
std::string output_of(const std::string& arguments) {
  return test::run_command("(" + test::hearth_binary() + " " + arguments + " 2>/dev/null)").output;
}

class TokenizerCommands : public ::testing::Test {
 protected:
  TokenizerCommands() {
    write_file_atomic(scratch / "tokenizer.json", test::small_tokenizer_file("</s>"));
    write_file_atomic(scratch / "text", "ab </s>");
  }
  std::string path(const std::string& name) const { return (scratch / name).string(); }
  ScratchFolder scratch;
};

TEST_F(TokenizerCommands, EncodePrintsOneLineADocumentWithEosAndWithoutBos) {
  EXPECT_EQ(output_of(fmt::format("tokenizer encode --tokenizer {0} {1} {1}", path("tokenizer.json"), path("text"))),
            "256 32 60 47 115 62 257\n256 32 60 47 115 62 257\n");
}

TEST_F(TokenizerCommands, EncodeReadsStandardInputAndParsesSpecialTextWhenAsked) {
  const std::string command = fmt::format("tokenizer encode --tokenizer {} --eos none", path("tokenizer.json"));
  CommandResult result = run_hearth(command + " < " + path("text"));
  EXPECT_EQ(
      result.output,
      "256 32 60 47 115 62\nthe text spells special tokens 1 time; they stay text (--parse-special reads them)\n");
  result = run_hearth(command + " --parse-special < " + path("text"));
  EXPECT_EQ(result.output, "256 32 257\nthe text spells special tokens 1 time; they became these tokens\n");
  EXPECT_EQ(run_hearth(command + " < /dev/null").output, "\n");
  result = run_hearth(command + " 'a text'");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no file a text"), HasSubstr("standard input")));
}

TEST_F(TokenizerCommands, ABosThatTheTokenizerDoesNotHaveIsAUserErrorAndCanBeNamed) {
  const std::string command =
      fmt::format("tokenizer encode --tokenizer {} --bos document {}", path("tokenizer.json"), path("text"));
  const CommandResult result = run_hearth(command);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no BOS"), HasSubstr("--bos-token"), HasSubstr("--bos none")));
  EXPECT_EQ(output_of(command + " --bos-token '</s>'"), "257 256 32 60 47 115 62 257\n");
  EXPECT_THAT(run_hearth(command + " --bos-token '</S>'").output,
              AllOf(HasSubstr(path("tokenizer.json")), HasSubstr("\"</S>\""), HasSubstr("did you mean </s>?")));
}

TEST_F(TokenizerCommands, DecodeGivesEveryByteBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  write_file_atomic(scratch / "bytes", bytes + "ab ab\n\n");
  const std::string with = fmt::format(" --tokenizer {} ", path("tokenizer.json"));
  EXPECT_EQ(run_hearth("tokenizer encode" + with + path("bytes") + " > " + path("ids")).exit_code, 0);
  EXPECT_EQ(run_hearth("tokenizer decode" + with + path("ids")).output, bytes + "ab ab\n\n");
  const CommandResult result = run_hearth("tokenizer decode" + with + path("text"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output.substr(0, 38), "error: \"ab\" is not a token id\n  fix: g");
  write_file_atomic(scratch / "wrong", "258\n");
  EXPECT_THAT(run_hearth("tokenizer decode" + with + path("wrong")).output,
              AllOf(HasSubstr("error: token 258"), HasSubstr("258 tokens")));
}

TEST_F(TokenizerCommands, InfoShowsKindSizeAndEnds) {
  const std::string text = run_hearth("tokenizer info --tokenizer " + scratch.path().string()).output;
  for (const char* part : {"huggingface", "258 ids", "</s> (257)"}) EXPECT_THAT(text, HasSubstr(part)) << text;
  const std::string json = run_hearth("tokenizer info --json --tokenizer " + path("tokenizer.json")).output;
  for (const char* part : {"\"vocab_size\": 258", "\"bos\": null", "\"eos\": 257", "\"text\": \"</s>\""})
    EXPECT_THAT(json, HasSubstr(part)) << json;
}

TEST_F(TokenizerCommands, CompareNamesWhatDiffers) {
  const std::string mine = path("tokenizer.json");
  EXPECT_EQ(run_hearth(fmt::format("tokenizer compare {0} {0} {1}", mine, path("text"))).output,
            fmt::format("kind: huggingface and huggingface\nvocabulary: 258 and 258 ids\nspecial tokens: the same\n"
                        "text of ids: the same\n{}: the same 6 ids\n",
                        path("text")));
  EXPECT_EQ(run_hearth(fmt::format("tokenizer compare {} bytes {}", mine, path("text"))).output,
            fmt::format("kind: huggingface and bytes\nvocabulary: 258 and 258 ids\nspecial tokens: 2 differ\n"
                        "  BOS: none and 256\n  </s>: 257 and none\ntext of ids: 1 differ\n  id 256: \"ab\" and \"\"\n"
                        "{}: 6 and 7 ids; they differ from id 0 on:\n  first  256 \"ab\" 32 \" \" 60 \"<\" 47 \"/\"\n"
                        "  second 97 \"a\" 98 \"b\" 32 \" \" 60 \"<\"\n",
                        path("text")));
}

TEST_F(TokenizerCommands, ADatasetKeepsItsTokenizerAndDecodesByItself) {
  write_file_atomic(scratch / "tokenizer.json", test::small_tokenizer_file("<s>", test::template_with("<s>")));
  const std::string build = fmt::format("data build --out {} --tokenizer {} --eos none {}", path("out"),
                                        path("tokenizer.json"), path("text"));
  CommandResult result = run_hearth(build);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("BOS <s> (257) before each document; no EOS\n"
                                       "first document: 257 256 32 60 47 115 62\n  | <s>ab </s>\n"))
      << result.output;
  EXPECT_EQ(read_file(scratch / "out" / "tokenizer.json"), read_file(scratch / "tokenizer.json"));
  remove_file(scratch / "tokenizer.json");
  const data::Dataset dataset = data::Dataset::open(scratch / "out");
  EXPECT_TRUE(dataset.manifest().rules.bos);
  EXPECT_EQ(dataset.manifest().rules.tokenizer, "tokenizer.json");
  std::string text;
  dataset.open_tokenizer()->decode(256, text);
  EXPECT_EQ(text, "ab");

  std::string changed = read_file(scratch / "out" / "tokenizer.json");
  changed.insert(1, " ");
  write_file_atomic(scratch / "out" / "tokenizer.json", changed);
  result = run_hearth("data sample --seq-len 4 " + path("out"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("is not the tokenizer that the manifest in its folder names")) << result.output;
  remove_file(scratch / "out" / "tokenizer.json");
  EXPECT_EQ(run_hearth("data sample --seq-len 4 " + path("out")).exit_code, 3);
}

TEST_F(TokenizerCommands, SpecialTextOfDocumentsIsCountedTheSameAfterAnInterruption) {
  const std::string build =
      fmt::format("data build --out {} --tokenizer {} {}", path("out"), path("tokenizer.json"), path("text"));
  CommandResult result = run_hearth(build);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the text spells special tokens 1 time; they stay text\n")) << result.output;
  const std::string manifest = read_file(scratch / "out" / "manifest.json");
  remove_file(scratch / "out" / "manifest.json");  // the state after a kill before the last write
  EXPECT_EQ(run_hearth(build).exit_code, 0);
  EXPECT_EQ(read_file(scratch / "out" / "manifest.json"), manifest);
  EXPECT_EQ(data::Dataset::open(scratch / "out").manifest().special_text_seen, 1);
}

}  // namespace
}  // namespace hearth::commands
