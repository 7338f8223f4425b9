// SPDX-License-Identifier: Apache-2.0
// TensorBoard's files of real trainings, as TensorBoard reads them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/python.h"
#include "train/tiny_run.h"

namespace hearth::train {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using TensorboardOfARun = TinyData;

json tensorboard_reads(const Path& folder) {
  const auto run = test::run_python(fmt::format("tests/metrics/tensorboard_reference.py {}", folder.string()));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return json::parse(run.output).at("scalars");
}

TEST_F(TensorboardOfARun, AResumedTrainingHasEveryPointOnceAndTheValuesOfItsMetrics) {
  config::RunConfig c = tiny_config(scratch);
  c.validation.freq = 6;
  c.metrics.log_freq = 1;
  c.metrics.enable_tensorboard = true;
  c.metrics.save_tb_folder = "board";
  c.training.steps = 7;
  c.checkpoint.interval = 4;
  train(c);
  remove_tree(step_of(c, 7));  // it goes on from step 4
  c.training.steps = 12;
  const std::vector<metrics::StepRecord> records = train(c);
  const json scalars = tensorboard_reads(c.run_folder() / "board");
  const json& loss = scalars.at("loss_metrics/global_avg_loss");
  ASSERT_EQ(records.size(), 13u);
  ASSERT_EQ(loss.size(), 12u);
  for (size_t i = 0; i < loss.size(); ++i) {
    EXPECT_EQ(loss[i][0], records[i + 1].step);
    EXPECT_EQ(loss[i][1].get<float>(), static_cast<float>(*records[i + 1].loss));
    EXPECT_EQ(loss[i][2], records[i + 1].time);
  }
  std::vector<int64_t> validated;
  for (const json& point : scalars.at("validation_metrics/loss")) validated.push_back(point[0]);
  EXPECT_THAT(validated, ElementsAre(0, 6, 12));
}

// Switched on late, it also has the steps before.
TEST_F(TensorboardOfARun, SwitchedOnLaterItHasTheWholeTraining) {
  config::RunConfig c = tiny_config(scratch);
  c.metrics.log_freq = 4;
  c.training.steps = 8;
  train(c);
  EXPECT_FALSE(path_exists(c.run_folder() / "tb"));
  c.metrics.enable_tensorboard = true;
  c.training.steps = 12;
  train(c);
  const json scalars = tensorboard_reads(c.run_folder() / "tb");
  std::vector<int64_t> steps;
  for (const json& point : scalars.at("lr")) steps.push_back(point[0]);
  EXPECT_THAT(steps, ElementsAre(1, 4, 8, 9, 12));
  config::TrainOptions restart;
  restart.restart = true;
  train(c, restart);
  EXPECT_TRUE(path_exists(c.run_folder() / "old-1" / "tb"));
}

}  // namespace
}  // namespace hearth::train
