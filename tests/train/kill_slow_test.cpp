#include <gtest/gtest.h>

#include "kills.h"

namespace hearth::train {
namespace {

TEST(KillSlow, AThousandKillsAtRandomMomentsChangeNothing) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 3000;
  c.optimizer.lr = 1e-3;
  c.checkpoint.interval = 0;  // results must not depend on the interval
  c.checkpoint.keep_latest_k = 3;
  c.validation.freq = 500;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 3000));

  c.job.dump_folder = "killed";
  c.checkpoint.interval = 3;
  EXPECT_EQ(train_with_kills(c, 1000, 2), 1000) << "the run ended before it could be killed that often";
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 3000)), tensors);
}

}  // namespace
}  // namespace hearth::train
