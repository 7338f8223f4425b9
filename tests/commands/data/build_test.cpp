// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/random.h"
#include "base/text.h"
#include "support/failpoint.h"
#include "support/hearth_command.h"
#include "support/text_file.h"
#include "tokenizer/small_file.h"

namespace hearth {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using test::CommandResult;
using test::run_hearth;
using test::ScratchFolder;
using test::write_text;

// Eight different files of text.
void write_corpus(const Path& folder) {
  for (int i = 0; i < 8; ++i) {
    std::string text = fmt::format("Chapter {}\n", i);
    for (uint64_t k = 0; k < 40; ++k)
      text += fmt::format("{} ", random_u64(random_key(7, std::to_string(i)), k) % 1000);
    write_text(folder / fmt::format("{}.txt", i), text);
  }
}

std::string folder_content(const Path& folder) {
  std::string content;
  for (const std::string& name : list_folder(folder)) content += name + "\n" + read_file(folder / name) + "\n";
  return content;
}

// Goes before a program in a shell command. The program's disk call `where` fails.
std::string failing(const std::string& where) { return join(failpoint::environment(where), " "); }

std::string text(const Path& path) { return path.string(); }

TEST(DataBuild, PrintsWhatItFoundAndWroteAndThenThatThereIsNothingToDo) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  std::filesystem::create_symlink("1.txt", scratch / "text" / "again.txt");
  write_text(scratch / "text" / "skip.md", "not text");
  const std::string command = fmt::format("data build --out {} --validation 0.3 --include '*.txt' {}",
                                          text(scratch / "out"), text(scratch / "text"));
  CommandResult result = run_hearth(command);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("found 8 files, ")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("(links resolved: 1, duplicates dropped: 0, empty: 0, not files: 0)"));
  EXPECT_THAT(result.output, HasSubstr("wrote 2 shards of 2 to "));
  EXPECT_THAT(result.output, HasSubstr("\ntokenizer bytes, 258 ids; no BOS; EOS (257) after each document\n"));
  EXPECT_THAT(result.output, HasSubstr("MB/s"));
  EXPECT_THAT(result.output, Not(HasSubstr("\r")));  // no progress bar without a terminal

  result = run_hearth(command);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr(" is complete already: nothing to do\n")) << result.output;

  result = run_hearth(command + " --eos none");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("add --overwrite to replace it")) << result.output;
  EXPECT_EQ(run_hearth(command + " --eos none --overwrite").exit_code, 0);
}

TEST(DataBuild, BytesThatAreNotUtf8AreCountedAndKept) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const auto build = [&](const char* out) {
    return run_hearth(fmt::format("data build --out {} {}", text(scratch / out), text(scratch / "text"))).output;
  };
  EXPECT_THAT(build("good"), Not(HasSubstr("not UTF-8")));
  write_text(scratch / "text" / "latin.txt", "caf\xE9 na\xEFve");
  write_text(scratch / "text" / "cut.txt", "end \xE2\x82");
  EXPECT_THAT(build("mixed"), HasSubstr("not UTF-8: 4 bytes in 2 documents, kept\n"));
  // A tokenizer without a token for each byte.
  write_text(scratch / "tokenizer.json", test::small_unigram_file());
  const std::string replaced =
      run_hearth(fmt::format("data build --eos none --tokenizer {} --out {} {}", text(scratch / "tokenizer.json"),
                             text(scratch / "replaced"), text(scratch / "text")))
          .output;
  EXPECT_THAT(replaced, HasSubstr("not UTF-8: 4 bytes in 2 documents, replaced by U+FFFD\n"));
}

TEST(DataBuild, KilledAtAnyCallItCompletesToTheSameBytes) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const auto command = [&](const std::string& out) {
    return fmt::format("data build --out {} --validation 0.3 --shard-tokens 400 --threads 2 {}", text(scratch / out),
                       text(scratch / "text"));
  };
  ASSERT_EQ(run_hearth(command("reference")).exit_code, 0);
  const std::string reference = folder_content(scratch / "reference");
  int64_t n = 1;
  for (;; ++n) {
    const CommandResult killed = run_hearth(command("out"), "exec env " + failing(fmt::format("{}:KILL", n)));
    if (killed.exit_code == 0) break;
    ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << "call " << n << ": " << killed.output;
    // If there is a manifest, it is a good one.
    if (path_exists(scratch / "out" / "manifest.json")) {
      EXPECT_EQ(run_hearth("data verify " + text(scratch / "out")).exit_code, 0);
    }
    ASSERT_EQ(run_hearth(command("out")).exit_code, 0) << "after call " << n;
    ASSERT_EQ(folder_content(scratch / "out"), reference) << "after call " << n;
    remove_tree(scratch / "out");
  }
  EXPECT_GT(n, 30);
}

TEST(DataBuild, ADiskFailureIsOneErrorWithExitCode4) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const std::string command = fmt::format("data build --out {} {}", text(scratch / "out"), text(scratch / "text"));
  CommandResult result = run_hearth(command, failing("5:ENOSPC"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(result.output.starts_with("error: cannot ")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("why: No space left on device")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("fix: free some space")) << result.output;
  EXPECT_FALSE(path_exists(scratch / "out" / "manifest.json"));
  result = run_hearth(command, failing("6:EIO"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("why: Input/output error")) << result.output;
}

// Root may read and write everything, so as root these run as "nobody".
CommandResult as_ordinary_user(const ScratchFolder& scratch, const std::string& arguments) {
  const std::string command = test::hearth_binary() + " " + arguments;
  if (::geteuid() != 0) return test::run_command(command);
  // The binary may be in a folder that "nobody" may not enter; the copy is not.
  const Path copy = scratch / "hearth";
  std::filesystem::copy_file(test::hearth_binary(), copy, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
  return test::run_command(
      fmt::format("setpriv --reuid=65534 --regid=65534 --clear-groups {} {}", copy.string(), arguments));
}

TEST(DataBuild, AnUnreadableFileIsAUserErrorThatNamesIt) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  std::filesystem::permissions(scratch / "text" / "3.txt", std::filesystem::perms(0));
  make_folders(scratch / "out");
  std::filesystem::permissions(scratch / "out", std::filesystem::perms(0777));
  const CommandResult result =
      as_ordinary_user(scratch, fmt::format("data build --out {} {}", text(scratch / "out"), text(scratch / "text")));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_EQ(result.output,
            fmt::format("error: cannot open {}\n  why: Permission denied\n", text(scratch / "text" / "3.txt")));
  EXPECT_FALSE(path_exists(scratch / "out" / "manifest.json"));
}

TEST(DataBuild, AReadOnlyOutputIsAUserError) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  make_folders(scratch / "out");
  std::filesystem::permissions(scratch / "out", std::filesystem::perms(0555));
  const CommandResult result =
      as_ordinary_user(scratch, fmt::format("data build --out {} {}", text(scratch / "out"), text(scratch / "text")));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Permission denied")) << result.output;
}

TEST(DataBuild, ACompleteDatasetInAReadOnlyFolderIsComplete) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const std::string arguments = fmt::format("data build --out {} {}", text(scratch / "out"), text(scratch / "text"));
  ASSERT_EQ(run_hearth(arguments).exit_code, 0);
  std::filesystem::permissions(scratch / "out", std::filesystem::perms(0555));
  const CommandResult result = as_ordinary_user(scratch, arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("nothing to do"));
  std::filesystem::permissions(scratch / "out", std::filesystem::perms(0755));
}

TEST(DataBuild, SmallerPortionsShareASmallCorpusAmongItsParts) {
  const ScratchFolder scratch;
  for (int i = 0; i < 12; ++i)
    write_text(scratch / "in" / fmt::format("{:02}.txt", i), fmt::format("{:02}", i) + std::string(98, 'x'));
  const auto build = [&](const std::string& options) {
    const CommandResult result =
        run_hearth(fmt::format("data build --shard-tokens 100 {} {}", options, text(scratch / "in")));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string parts = fmt::format("--out {} --part ", text(scratch / "parts"));
  EXPECT_THAT(build(parts + "1/3"), HasSubstr("train              0 documents"));  // all files are one portion
  for (const char* part : {"1/3", "2/3", "3/3"})
    EXPECT_THAT(build(parts + part + " --portion-bytes 200 --overwrite"), HasSubstr("train              4 documents"));
  EXPECT_EQ(run_hearth("data merge " + text(scratch / "parts")).exit_code, 0);
  build(fmt::format("--portion-bytes 200 --out {}", text(scratch / "one")));
  EXPECT_EQ(folder_content(scratch / "one"), folder_content(scratch / "parts"));
}

TEST(DataBuild, JsonLinesInPartsAreMergedToTheSingleBuild) {
  const ScratchFolder scratch;
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += fmt::format("{{\"meta\": {{\"text\": \"record {}\"}}, \"title\": \"t\"}}\n", i % 50);
  write_text(scratch / "in" / "x.jsonl", lines);
  write_text(scratch / "in" / "y.jsonl", lines + "{\"title\": \"t\"}\n");
  write_text(scratch / "list", "in/x.jsonl\n");
  const std::string options = fmt::format(
      "--text-key title --text-key meta.text --text-join '\\t' --on-error skip --dedup exact --shard-tokens 100 "
      "--source-list {} '{}'",
      text(scratch / "list"), text(scratch / "in" / "y.*"));
  CommandResult result = run_hearth(fmt::format("data build --out {} {}", text(scratch / "one"), options));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("skipped 1 record: missing_key\n")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("dropped 70 repeated documents\n")) << result.output;
  for (const char* part : {"2/2", "1/2"})
    ASSERT_EQ(
        run_hearth(fmt::format("data build --out {} --part {} {}", text(scratch / "two"), part, options)).exit_code, 0);
  result = run_hearth("data merge " + text(scratch / "two"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(folder_content(scratch / "one"), folder_content(scratch / "two"));
  result = run_hearth(fmt::format("data sample {} --seq-len 50", text(scratch / "one")));
  EXPECT_THAT(result.output, HasSubstr("| t\trecord ")) << result.output;

  const auto message = [&](const std::string& wrong) {
    const CommandResult failed =
        run_hearth(fmt::format("data build --out {} {} {}", text(scratch / "no"), wrong, text(scratch / "in")));
    EXPECT_EQ(failed.exit_code, 2) << failed.output;
    return failed.output.substr(0, failed.output.find('\n'));
  };
  EXPECT_EQ(message("--part 3/2"), "error: --part 3/2 names no part");
  EXPECT_EQ(message("--part 1of2"), "error: --part 1of2 names no part");
  EXPECT_EQ(message("--text-join '\\x'"), "error: --text-join has an unknown escape \\x");
  EXPECT_EQ(message("--text-key ''"), "error: --text-key needs a name");
  EXPECT_EQ(message("--max-record-bytes 0"), "error: --max-record-bytes 0 is too small");
  EXPECT_THAT(message(""), HasSubstr(fmt::format("{}: line 1: it has no key \"text\": its keys are ",
                                                 text(scratch / "in" / "x.jsonl"))));
  EXPECT_EQ(run_hearth("data build --out " + text(scratch / "no")).output.substr(0, 32),
            "error: there is nothing to read\n");
}

TEST(DataBuild, SplitsByPositionAreShownAndOnesThatMakeNoSenseAreUserErrors) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const std::string command =
      fmt::format("data build --out {} {} --split ", text(scratch / "out"), text(scratch / "text"));
  for (const char* split : {"1,2,3,4", "most", "0"}) {
    const CommandResult wrong = run_hearth(command + split);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.output, HasSubstr(fmt::format("--split {} is invalid", split))) << wrong.output;
  }
  EXPECT_EQ(run_hearth(command + "4,2,2 --validation 0.1").exit_code, 2);
  const CommandResult built = run_hearth(command + "\"4, 2, 2\"");
  ASSERT_EQ(built.exit_code, 0) << built.output;
  for (const auto& [name, documents] :
       std::vector<std::pair<std::string, int>>{{"train", 4}, {"validation", 2}, {"test", 2}})
    EXPECT_THAT(built.output, HasSubstr(fmt::format("{:<10} {:>9} documents", name, documents))) << built.output;
  const CommandResult shown = run_hearth(fmt::format("data inspect {}", text(scratch / "out")));
  EXPECT_THAT(shown.output, HasSubstr("by position, 4,2,2")) << shown.output;
}

TEST(DataBuild, SeveralDatasetsAreMergedIntoANewOneAndOneFolderInPlace) {
  const ScratchFolder scratch;
  write_corpus(scratch / "text");
  const std::string a = text(scratch / "a"), b = text(scratch / "b"), out = text(scratch / "out");
  ASSERT_EQ(run_hearth(fmt::format("data build --out {} {}", a, text(scratch / "text" / "0.txt"))).exit_code, 0);
  ASSERT_EQ(run_hearth(fmt::format("data build --out {} {}", b, text(scratch / "text" / "1.txt"))).exit_code, 0);
  const auto refused = [](const std::string& arguments, const char* what) {
    const CommandResult wrong = run_hearth("data merge " + arguments);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.output, HasSubstr(what)) << wrong.output;
  };
  refused(a + " " + b, "several datasets become a new one");
  refused(fmt::format("--out {} {}", out, a), "--out goes with several datasets");
  refused("--overwrite " + a, "--overwrite goes with several datasets");
  const CommandResult merged = run_hearth(fmt::format("data merge --out {} {} {}", out, a, b));
  ASSERT_EQ(merged.exit_code, 0) << merged.output;
  EXPECT_THAT(merged.output, HasSubstr("train              2 documents")) << merged.output;
  EXPECT_THAT(merged.output, HasSubstr("shared with the original datasets (hard links): 2 shards; copied: 0\n"))
      << merged.output;
  EXPECT_THAT(run_hearth(fmt::format("data merge --out {} {} {}", out, a, b)).output, HasSubstr("is complete already"));
  EXPECT_EQ(run_hearth("data verify " + out).exit_code, 0);
}

TEST(DataBuild, AnEmptyCorpusIsAUserError) {
  const ScratchFolder scratch;
  make_folders(scratch / "text");
  const CommandResult result = run_hearth(
      fmt::format("data build --out {} --include '*.txt' {}", text(scratch / "out"), text(scratch / "text")));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no text"), HasSubstr("--include")));
}

}  // namespace
}  // namespace hearth
