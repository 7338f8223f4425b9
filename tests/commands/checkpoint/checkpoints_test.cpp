// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "checkpoint/example.h"
#include "runfolder/names.h"
#include "support/hearth_command.h"

namespace hearth::checkpoint {
namespace {

using test::run_hearth;
using testing::HasSubstr;

struct CheckpointsCommand : testing::Test {
  CheckpointsCommand() {
    for (const auto& [step, loss] : {std::pair(10, 3.25), {20, 1.5}, {30, 2.125}, {40, 2.5}})
      save_example(scratch / "checkpoints", {example_tensor("w", DType::kFloat32, {2})}, step, 1,
                   std::map<std::string, double>{{"loss", loss + 1}, {"validation_loss", loss}});
  }
  std::vector<int64_t> steps() const { return list_steps(scratch / "checkpoints"); }
  test::CommandResult run(const std::string& words) const {
    return run_hearth(fmt::format("checkpoints {}", fmt::format(fmt::runtime(words), scratch.path().string())));
  }
  void damage(int64_t step) const {
    const Path file = step_folder(scratch / "checkpoints", step) / "__R_0.distcp";
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    write_file_atomic(file, bytes);
  }
  test::ScratchFolder scratch;
};

TEST_F(CheckpointsCommand, ListHasLossesSizesAndStates) {
  const test::CommandResult result = run("list {}");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("20   2.5000      1.5000"));
  for (const std::string& row : split_lines(result.output)) EXPECT_LE(row.size(), 80u) << row;
  EXPECT_THAT(result.output, HasSubstr("not checked"));
  damage(30);
  const test::CommandResult verified = run("list {}/checkpoints --verify --json");
  EXPECT_EQ(verified.exit_code, 3);
  const nlohmann::json rows = nlohmann::json::parse(verified.output);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("state"), "good");
  EXPECT_THAT(rows[2].at("state").get<std::string>(), HasSubstr("damaged: w is damaged"));
  EXPECT_EQ(rows[1].at("step"), 20);
  EXPECT_EQ(rows[1].at("validation_loss"), 1.5);
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(step_folder(scratch / "checkpoints", 20)))
    bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_EQ(rows[1].at("bytes"), bytes);
  EXPECT_THAT(run("list {}/nothing").output, HasSubstr("nothing has no checkpoints"));
}

TEST_F(CheckpointsCommand, ListSaysWhichHaveTheWeightsAlone) {
  save_example(
      scratch / "checkpoints",
      {example_tensor("w", DType::kFloat32, {2}), example_tensor("optimizer.state.w.exp_avg", DType::kFloat32, {2})},
      50, 1);
  const nlohmann::json rows = nlohmann::json::parse(run("list {} --json").output);
  EXPECT_EQ(rows.at(3).at("contents"), "weights");
  EXPECT_EQ(rows.at(4).at("contents"), "training");
  EXPECT_THAT(run("list {}").output, HasSubstr("weights"));
}

TEST_F(CheckpointsCommand, PruneObeysItsRulesAndSaysWhatItDeleted) {
  EXPECT_THAT(run("prune {}").output, HasSubstr("error: all checkpoints are kept"));
  EXPECT_THAT(run("prune {} --keep-latest 1 --keep-best 1 --dry-run").output,
              testing::ContainsRegex("would delete 2 checkpoints, .*: steps 10, 30"));
  EXPECT_EQ(steps(), (std::vector<int64_t>{10, 20, 30, 40}));
  EXPECT_THAT(run("prune {} --keep-latest 1 --keep-best 1").output, HasSubstr("deleted 2 checkpoints"));
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 40}));
  EXPECT_THAT(run("prune {} --keep-latest 2").output, HasSubstr("nothing to delete: the rules keep 2 checkpoints"));
}

TEST_F(CheckpointsCommand, PruneKeepsTheNewestGoodOneAndWaitsForNoTraining) {
  damage(40);
  EXPECT_EQ(run("prune {} --keep-latest 1").exit_code, 0);
  EXPECT_EQ(steps(), (std::vector<int64_t>{30, 40}));
  const auto lock = FileLock::try_lock(scratch / runfolder::kLockFile);
  const test::CommandResult refused = run("prune {} --keep-latest 1");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("error: a training runs in"));
  damage(30);
}

TEST_F(CheckpointsCommand, PruneTakesTheRulesOfTheRunFile) {
  write_file_atomic(scratch / "config.toml", "[checkpoint]\nkeep_latest_k = 1\nkeep_every = 20\n");
  EXPECT_EQ(run("prune {}").exit_code, 0);
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 40}));
  for (const int64_t step : {20, 40}) damage(step);
  const test::CommandResult none = run("prune {}");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.output, HasSubstr("has no good checkpoint"));
}

TEST_F(CheckpointsCommand, AverageTakesANumberForEachCheckpoint) {
  const auto save = [&](int64_t step, float value) {
    const Path temporary = temporary_folder(scratch / "pair", step);
    begin_save(temporary);
    const mesh::TensorInfo info{"w", DType::kFloat32, {1}};
    const std::vector<mesh::TensorPiece> pieces = {{info, whole_box({1}), std::as_bytes(std::span(&value, 1))}};
    const std::vector<std::string> items = {write_rank_file(temporary, 0, pieces)};
    Manifest manifest = example_manifest(step, 1);
    manifest.config_toml.clear();
    manifest.tokenizer_hash = tokenizer::open_tokenizer("bytes")->content_hash();
    commit(temporary, step_folder(scratch / "pair", step), items, manifest);
  };
  save(1, 1), save(2, 5);
  const std::string both = " {0}/pair/step-00000001 {0}/pair/step-00000002";
  const test::CommandResult made = run("average --weights 3,1 --out {0}/mean" + both);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("the mean of 2 checkpoints, 1 weight, 4 B, step 2"));
  Reader reader = Reader::open(scratch / "mean");
  float mean = 0;
  reader.read("w", whole_box({1}), std::as_writable_bytes(std::span(&mean, 1)));
  EXPECT_EQ(mean, 2);  // (3 * 1 + 5) / 4
  for (const char* wrong : {"1", "1,2,3", "1,", "1,x", "1,-2", "1,0", "1,nan", ","}) {
    const test::CommandResult refused = run(fmt::format("average --weights {} --out {{0}}/other", wrong) + both);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("--weights")) << wrong;
  }
  EXPECT_EQ(run("average --out {0}/mean" + both).exit_code, 2);
  // A run would go on from it.
  EXPECT_THAT(run("average --out {0}/pair/step-00000009" + both).output, HasSubstr("its name is a step's"));
  EXPECT_FALSE(path_exists(scratch / "pair/step-00000009"));
  EXPECT_FALSE(path_exists(scratch / "other"));
}

}  // namespace
}  // namespace hearth::checkpoint
