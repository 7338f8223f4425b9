// SPDX-License-Identifier: Apache-2.0
// The commands' output for data with token weights.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/hearth_command.h"
#include "support/text_file.h"

namespace hearth {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::CommandResult;
using test::run_hearth;
using test::ScratchFolder;
using test::write_text;

class DataWeights : public testing::Test {
 protected:
  DataWeights() {
    std::string lines;
    for (int i = 0; i < 10; ++i)
      lines += fmt::format("{{\"q\": \"ask {}: \", \"a\": \"yes\", \"w\": {}}}\n", i, i % 2 + 1);
    write_text(scratch_ / "a.jsonl", lines);
  }
  // 10 documents of 12 bytes, such as "ask 0: yes"; "yes" and EOS count.
  CommandResult build(const std::string& more) {
    return run_hearth(fmt::format("data build --out {} --overwrite --text-key q --text-key a --text-join \"\" {} {}",
                                  out(), more, (scratch_ / "a.jsonl").string()));
  }
  std::string out() const { return (scratch_ / "out").string(); }
  static void expect_part(const CommandResult& result, const std::string& part) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.output, HasSubstr(part)) << part << "\n" << result.output;
  }
  ScratchFolder scratch_;
};

TEST_F(DataWeights, BuildInspectStatsAndSampleTellWhatCounts) {
  const CommandResult built = build("--loss-key a");
  expect_part(built, "train      40 of 110 tokens count (36.36 %)\n");
  expect_part(built, "in brackets: tokens that do not count in the loss\n");
  expect_part(built, "first document: (97) (115) (107) (32) (48) (58) (32) 121 101 115 257\n");
  expect_part(run_hearth("data inspect " + out()), "train       40 of 110 tokens count (36.36 %)\n");
  expect_part(run_hearth("data stats " + out()), "  in the loss     40 of 110 tokens count (36.36 %)\n");
  const CommandResult json = run_hearth("data stats --json " + out());
  EXPECT_EQ(nlohmann::json::parse(json.output)["splits"][0]["counted_tokens"], 40);
  expect_part(run_hearth("data sample --seq-len 10 --seed 1 --count 11 " + out()), ", 3 of them count in the loss\n");
  expect_part(run_hearth("data verify " + out()), " is whole: ");

  expect_part(build("--loss-key a --weights-key w"),
              "train      40 of 110 tokens count (36.36 %), with weights of 60 in total\n");
  EXPECT_EQ(nlohmann::json::parse(run_hearth("data stats --json " + out()).output)["splits"][0]["weight_sum"], 60);
  // Without weights no command mentions them.
  build("");
  for (const char* command : {"inspect", "stats", "sample"}) {
    const CommandResult plain = run_hearth(fmt::format("data {} {}", command, out()));
    for (const char* words : {"count (", "in the loss"})
      EXPECT_THAT(plain.output, Not(HasSubstr(words))) << command << "\n" << plain.output;
  }
}

TEST_F(DataWeights, ExportWritesLabelsBesideTokensAndOverNothing) {
  build("--loss-key a");
  const std::string to = (scratch_ / "x").string();
  write_text(scratch_ / "x_label.idx", "mine");
  CommandResult result = run_hearth(fmt::format("data export --to bin-idx --out {} {}", to, out()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("x_label.idx exists already")) << result.output;
  EXPECT_EQ(list_folder(scratch_), (std::vector<std::string>{"a.jsonl", "out", "x_label.idx"}));
  result = run_hearth(fmt::format("data export --overwrite --to bin-idx --out {} {}", to, out()));
  expect_part(result, "wrote 10 documents, 110 tokens of train\n");
  EXPECT_EQ(list_folder(scratch_),
            (std::vector<std::string>{"a.jsonl", "out", "x.bin", "x.idx", "x_label.bin", "x_label.idx"}));
  expect_part(run_hearth(fmt::format("data export --to jsonl --out {}.jsonl {}", to, out())),
              "text has no weights: the weights of tokens are not written\n");
  build("--weights-key w");
  result = run_hearth(fmt::format("data export --to bin-idx --out {}2 {}", to, out()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("bin-idx cannot hold the weights of " + out())) << result.output;
}

TEST_F(DataWeights, OptionsThatGoNowhereAreErrors) {
  for (const auto& [options, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"--loss-key b", "--loss-key b names no text"},
           {"--labels-key a", "--labels-key does not go with "},
           {"--labels a.bin", "--labels a.bin has no token file"},
           {"--weights-key nothing", "line 1: it has no key \"nothing\""}}) {
    const CommandResult result = build(options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.output, HasSubstr(message)) << message << "\n" << result.output;
  }
}

}  // namespace
}  // namespace hearth
