#include <gtest/gtest.h>

#include "kills.h"

namespace hearth::train {
namespace {

TEST(Kill, TenKillsAtRandomMomentsChangeNothing) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 60;
  c.checkpoint.interval = 3;
  c.checkpoint.keep_latest_k = 3;
  c.validation.freq = 20;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 60));

  c.job.dump_folder = "killed";
  EXPECT_EQ(train_with_kills(c, 10, 1), 10) << "the run ended before it could be killed that often";
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 60)), tensors);
}

}  // namespace
}  // namespace hearth::train
